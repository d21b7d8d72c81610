// Package relay runs a dispatcher with what stands around it: the catalogue that it follows, its row in
// outbox_publishers, and the listener that wakes it. The command publish and programs that embed a dispatcher share it.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// Params is what a Relay works with.
type Params struct {
	// Claims and Settles are two pools: settling must never wait for a connection that claims hold.
	Claims, Settles *pgxpool.Pool
	// Connect opens the connection that listens for commits; nil: it only polls.
	Connect func(context.Context) (*pgx.Conn, error)
	// Types is the catalogue. Follows says that it is the database's, and changes with it.
	Types   *registry.Registry
	Follows bool
	// Publisher makes the publisher for a catalogue: at the start, and again when the catalogue that is followed changes.
	Publisher func(context.Context, *registry.Registry) (dispatch.Publisher, error)
	// Scope is without event types: EventTypes, unless empty, are those to publish, by name.
	Scope      dispatch.Scope
	EventTypes []string
	// Tuning is the dispatcher's, without event types and authority.
	Tuning   dispatch.Config
	Identity dispatch.Identity
	Observe  dispatch.Observer
	Log      *slog.Logger
}

// Relay is a dispatcher with what stands around it.
type Relay struct {
	params Params
	live   *registry.Live
	// dispatcher is another one when the catalogue has changed.
	dispatcher atomic.Pointer[dispatch.Dispatcher]
	listener   *dispatch.Listener // nil: polling only
	// pauses is what was paused when the database was asked last.
	pauses atomic.Pointer[[]outbox.Pause]
	// changed makes the heartbeat tell of other pauses: an operator may wait until they are obeyed.
	changed chan struct{}
	// used: the dispatcher has run, and the next run needs another.
	used bool
}

// New compares the catalogue with the database's and builds the dispatcher.
func New(ctx context.Context, p Params) (*Relay, error) {
	live, err := registry.NewLive(ctx, p.Claims, p.Types)
	if err != nil {
		return nil, err
	}
	r := &Relay{params: p, live: live, changed: make(chan struct{}, 1)}
	if p.Connect != nil {
		r.listener = dispatch.NewListener(p.Connect, p.Observe)
	}
	if err := r.readPauses(ctx); err != nil {
		return nil, err
	}
	return r, r.build(ctx)
}

// build makes the dispatcher of the catalogue that is there now.
func (r *Relay) build(ctx context.Context) error {
	types := r.live.Own()
	publisher, err := r.params.Publisher(ctx, types)
	if err != nil {
		return err
	}
	var waker dispatch.Waker
	if r.listener != nil && !r.params.Tuning.Once {
		waker = r.listener
	}
	tuning := r.params.Tuning
	tuning.Authority = r.live
	tuning.Paused = r.Pauses
	tuning.Names, tuning.Scope = types.Names(), r.params.Scope
	if len(r.params.EventTypes) > 0 {
		tuning.Scope.Types = tuning.Names.Called(r.params.EventTypes...)
	}
	store := dispatch.NewSQLStore(r.params.Claims, r.params.Settles, r.params.Identity.ID, tuning.Scope)
	d, err := dispatch.New(tuning, store, publisher, types, r.params.Observe, waker)
	if err != nil {
		return err
	}
	r.dispatcher.Store(d)
	return nil
}

// Dispatcher is the one that runs now, or ran last.
func (r *Relay) Dispatcher() *dispatch.Dispatcher { return r.dispatcher.Load() }

// Once publishes until nothing is left to claim, as Run does with Tuning.Once.
func (r *Relay) Once(ctx context.Context) (dispatch.Totals, error) {
	r.params.Tuning.Once, r.used = true, true
	err := r.Run(ctx)
	r.params.Tuning.Once = false
	return r.Dispatcher().Totals(), err
}

// Run publishes until ctx ends. What stands around the dispatcher outlives it, so that a draining publisher is still seen.
// It may be called again when it has returned.
func (r *Relay) Run(ctx context.Context) error {
	if r.used {
		if err := r.build(ctx); err != nil {
			return err
		}
	}
	r.used = true
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	var services sync.WaitGroup
	defer services.Wait()
	defer stop()
	heartbeat := &dispatch.Heartbeat{DB: r.params.Claims, Identity: r.params.Identity, State: r.State, Soon: r.changed, Observe: r.params.Observe}
	services.Go(func() { heartbeat.Run(around) })
	services.Go(func() { r.watchPauses(around) })
	if r.listener != nil && !r.params.Tuning.Once {
		services.Go(func() { r.listener.Run(around) })
	}
	return r.dispatch(ctx)
}

// dispatch runs dispatchers, one after the other: a publisher that follows the database drains when the catalogue there
// has changed and goes on with the new one.
func (r *Relay) dispatch(ctx context.Context) error {
	for {
		turn, end := context.WithCancel(ctx)
		var watched sync.WaitGroup
		changed := false
		watched.Go(func() {
			if r.watchCatalogue(turn) {
				changed = true
				end()
			}
		})
		err := r.Dispatcher().Run(turn)
		end()
		watched.Wait()
		if err != nil || !changed || ctx.Err() != nil {
			return err
		}
		r.live.Follow()
		if err := r.build(ctx); err != nil {
			return err
		}
	}
}

// State is what the publisher reports of itself.
func (r *Relay) State() dispatch.PublisherState {
	state := r.Dispatcher().State()
	for _, p := range r.Pauses() {
		state.Pauses = append(state.Pauses, p.Name())
	}
	report := r.live.Report()
	state.Catalogue = &dispatch.CatalogueReport{
		Source: report.Source, Revision: report.Revision, Unknown: report.Unknown, StoodDown: report.StoodDown, Other: report.Other,
	}
	return state
}

// Check is one thing that must hold for everything to be published.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// StoodDown lists the event types that the publisher leaves alone because an event does not fit its catalogue, each behind
// its namespace.
func (r *Relay) StoodDown() []string { return outbox.ByNamespace(r.live.Report().StoodDown).Texts() }

// catalogueReady returns which types the publisher has stood down from.
func (r *Relay) catalogueReady(context.Context) error {
	stood := r.StoodDown()
	if len(stood) == 0 {
		return nil
	}
	return fmt.Errorf("leaves %s alone: an event does not fit the catalogue of this publisher (%s), and the recorded one says something else; registry apply records this one",
		strings.Join(stood, ", "), r.live.Own().Source)
}

// Checks lists what must hold now: the database, its claims, the catalogue, and each topic of it, which changes with it.
func (r *Relay) Checks() []Check {
	d := r.Dispatcher()
	checks := []Check{
		{"database", r.params.Claims.Ping},
		{"claims", func(context.Context) error { return d.ClaimsReady() }},
		{"catalogue", r.catalogueReady},
	}
	for _, topic := range d.TopicNames() {
		checks = append(checks, Check{"topic " + topic, func(ctx context.Context) error { return d.TopicReady(ctx, topic) }})
	}
	return checks
}

// Ready returns why the publisher cannot publish everything now.
func (r *Relay) Ready(ctx context.Context) error {
	checks := r.Checks()
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
