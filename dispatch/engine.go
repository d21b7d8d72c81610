package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// build makes the engine of the catalogue that is there now. It counts from what the engines of the
// run have done.
func (d *Dispatcher) build(ctx context.Context, done dispatch.Totals) error {
	types := d.live.Own()
	publisher := d.cfg.Publisher
	if d.cfg.NewPublisher != nil {
		var err error
		if publisher, err = d.cfg.NewPublisher(ctx, types.Catalogue); err != nil {
			return err
		}
	}
	tuning := d.cfg.Tuning.internal()
	tuning.Once, tuning.Authority, tuning.Paused, tuning.Names = d.once, d.live, d.paused, types.Names()
	tuning.Scope = dispatch.Scope{Namespace: d.cfg.Namespace, TenantID: d.cfg.TenantID}
	if len(d.cfg.EventTypes) > 0 {
		tuning.Scope.Types = tuning.Names.Called(d.cfg.EventTypes...)
	}
	var waker dispatch.Waker
	if d.listens() {
		waker = d.listener
	}
	store := dispatch.NewSQLStore(d.cfg.Claims, d.cfg.Settles, d.identity.ID, tuning.Scope)
	sends := d.cfg.Traces.publisher(dispatch.Adapt[Message, Result](publisher))
	engine, err := dispatch.New(tuning, store, sends, types, d.observe, waker)
	if err != nil {
		return err
	}
	engine.GoOn(done)
	d.engine.Store(engine)
	d.shareRates(ctx)
	return nil
}

// listens: commits wake the engine.
func (d *Dispatcher) listens() bool { return !d.cfg.PollOnly && !d.once }

// listen opens the connection that listens for commits.
func (d *Dispatcher) listen(ctx context.Context) (*pgx.Conn, error) {
	cc := d.cfg.Claims.Config().ConnConfig
	cc.RuntimeParams["application_name"] += " listen"
	return pgx.ConnectConfig(ctx, cc)
}

// run publishes until ctx ends, or, with once, until nothing is left. What stands around
// the engine outlives it, so that a draining dispatcher is still seen.
func (d *Dispatcher) run(ctx context.Context, once bool) (Totals, error) {
	if !d.running.TryLock() {
		return Totals{}, ErrRunning
	}
	defer d.running.Unlock()
	if d.used || once != d.once { // an engine runs once
		d.once = once
		if err := d.build(ctx, dispatch.Totals{}); err != nil {
			return Totals{}, err
		}
	}
	d.used = true
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	var services sync.WaitGroup
	defer services.Wait()
	defer stop()
	heartbeat := &dispatch.Heartbeat{
		DB: d.cfg.Claims, Identity: d.identity, State: d.state, Soon: d.pausesChanged, Observe: d.observe,
	}
	services.Go(func() { heartbeat.Run(around) })
	services.Go(func() { d.history.Run(around) })
	services.Go(func() { d.watchPauses(around) })
	if d.listens() {
		services.Go(func() { d.listener.Run(around) })
	}
	if d.backlog != nil {
		services.Go(func() { d.backlog.Run(around) })
	}
	err := d.runEngines(ctx)
	return Totals(d.engine.Load().Totals()), err
}

// runEngines runs engines, one after the other: a dispatcher that follows the database
// drains when the catalogue there has changed and goes on with the new one.
func (d *Dispatcher) runEngines(ctx context.Context) error {
	for {
		turn, end := context.WithCancel(ctx)
		var watched sync.WaitGroup
		changed := false
		watched.Go(func() {
			if d.watchCatalogue(turn) {
				changed = true
				end()
			}
		})
		err := d.engine.Load().Run(turn)
		end()
		watched.Wait()
		if err != nil || !changed || ctx.Err() != nil {
			return err
		}
		d.live.Follow()
		if err := d.build(ctx, d.engine.Load().Totals()); err != nil {
			return err
		}
	}
}

// state is what the dispatcher reports of itself.
func (d *Dispatcher) state() dispatch.PublisherState {
	state := d.engine.Load().State()
	state.Takes = dispatch.Takes{Namespace: d.cfg.Namespace, TenantID: d.cfg.TenantID, EventTypes: d.cfg.EventTypes}
	report := d.live.Report()
	state.Catalogue = &report
	return state
}

// stoodDown lists the event types that the dispatcher leaves alone because an event does
// not fit its catalogue, each behind its namespace.
func (d *Dispatcher) stoodDown() []string {
	return outbox.ByNamespace(d.live.Report().StoodDown).Texts()
}

// catalogueReady returns which types the dispatcher has stood down from.
func (d *Dispatcher) catalogueReady(context.Context) error {
	stood := d.stoodDown()
	if len(stood) == 0 {
		return nil
	}
	return fmt.Errorf("leaves %s alone: an event does not fit the catalogue of this publisher (%s), "+
		"and the recorded one says something else; registry apply records this one",
		strings.Join(stood, ", "), d.live.Own().Source)
}

// Check is one thing that must hold for everything to be published.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// Checks lists what must hold now: the database, its claims, the catalogue, and each topic
// of it. They change with the catalogue.
func (d *Dispatcher) Checks() []Check {
	engine := d.engine.Load()
	checks := []Check{
		{"database", d.cfg.Claims.Ping},
		{"claims", func(context.Context) error { return engine.ClaimsReady() }},
		{"catalogue", d.catalogueReady},
	}
	for _, t := range engine.Topics() {
		ready := func(ctx context.Context) error { return engine.TopicReady(ctx, t.Topic) }
		checks = append(checks, Check{"topic " + t.Topic, ready})
	}
	return checks
}

// Ready asks all Checks and returns why not everything can be published now.
func (d *Dispatcher) Ready(ctx context.Context) error {
	checks := d.Checks()
	errs := make([]error, len(checks))
	var running sync.WaitGroup
	for i, c := range checks {
		running.Go(func() {
			if err := c.Run(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", c.Name, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Alive returns an error when the dispatcher hangs, and should be restarted. A database or a
// broker that is away is no reason for that.
func (d *Dispatcher) Alive(context.Context) error { return d.engine.Load().Alive() }

// catalogueEvery is how often the database is asked whether its catalogue has changed.
const catalogueEvery = 5 * time.Second

// watchCatalogue looks at the recorded catalogue until ctx ends. It reports that the engine has to
// be built again.
func (d *Dispatcher) watchCatalogue(ctx context.Context) bool {
	ticker := time.NewTicker(catalogueEvery)
	defer ticker.Stop()
	var said []string
	follows := d.cfg.Catalogue == nil
	seen := d.live.Own().Recording.Revision
	if !follows {
		seen = d.live.Report().Revision
	}
	for {
		if stood := d.stoodDown(); !slices.Equal(stood, said) {
			if said = stood; len(said) > 0 {
				d.cfg.Log.Warn("leaving event types to publishers with the recorded catalogue: an event does not fit this one's", "types", said)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		if err := d.live.Refresh(ctx); err != nil && ctx.Err() == nil {
			d.observe.Trouble("catalogue", err)
		}
		report := d.live.Report()
		if report.Revision == seen {
			continue
		}
		seen = report.Revision
		d.cfg.Log.Info("the recorded catalogue has changed", "revision", seen, "unknown", outbox.ByNamespace(report.Unknown).Texts())
		if follows && d.live.Behind() {
			return true
		}
	}
}
