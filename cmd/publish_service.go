package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/cli"
	engine "github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
	"github.com/outboxctl/outboxctl/internal/zlog"
)

// parkedTimeout bounds the look at parked events at the end of a run with --once.
const parkedTimeout = 5 * time.Second

// publishService is a dispatcher with what the command has around it: pools and broker.
type publishService struct {
	*dispatch.Dispatcher
	app    *cli.App
	cfg    *cli.Config
	once   bool
	log    zerolog.Logger
	claims *pgxpool.Pool
	// idle is after how long an unused connection is closed.
	idle time.Duration
}

// newPublishService opens what a publisher needs. Pools and dispatcher are closed with the app.
// Nothing is measured where metrics is nil.
func newPublishService(ctx context.Context, opts *publishOptions, app *cli.App, cfg *cli.Config, metrics prometheus.Registerer) (*publishService, error) {
	p := cfg.Publish
	s := &publishService{app: app, cfg: cfg, once: opts.once, log: app.Log(), idle: opts.idle}
	traces := dispatch.Traces{Provider: opts.traces, System: cfg.BrokerKind().TracedAs()}
	if cfg.Context != nil && opts.several {
		s.log = s.log.With().Str("context", cfg.Context.Name).Logger()
		traces.Attributes = append(traces.Attributes, attribute.String("outbox.context", cfg.Context.Name))
	}
	config := dispatch.Config{
		Namespace: opts.namespace, TenantID: opts.tenant, EventTypes: opts.eventTypes,
		NewPublisher: s.publisher, PollOnly: p.Wake != "auto", Version: app.Build.Version,
		Log: zlog.Slog(s.log), LogPublished: p.LogPublished, Metrics: metrics,
		Tuning: p.Tuning, Traces: traces,
	}
	var err error
	if !app.FollowsDatabase() { // a file that is wrong is told before anything is opened
		types, err := app.Registry(ctx)
		if err != nil {
			return nil, err
		}
		config.Catalogue, config.CatalogueName = types.Catalogue, types.Source
	}
	if config.Claims, err = s.pool(ctx, "outboxctl publish", p.Workers+2); err != nil {
		return nil, err
	}
	app.UsePool(config.Claims)
	if _, err := app.Registry(ctx); err != nil {
		return nil, err
	}
	if config.Settles, err = s.pool(ctx, "outboxctl publish settle", engine.DefaultSettlers+1); err != nil {
		return nil, err
	}
	s.claims = config.Claims
	if s.Dispatcher, err = dispatch.New(ctx, config); err != nil {
		return nil, unready(err)
	}
	app.OnClose(func() error { s.Close(); return nil })
	s.log = s.log.With().Str("publisher", s.ID()).Logger()
	return s, nil
}

// publisher is the broker's, for the topics of a catalogue.
func (s *publishService) publisher(ctx context.Context, types *catalogue.Catalogue) (dispatch.Publisher, error) {
	client, err := s.app.Broker(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := s.app.TopicsOf(types)
	if err != nil {
		// At the start it is an error. A catalogue that is followed may drop a topic, and must not
		// end every publisher with it.
		s.log.Warn().Err(err).Msg("a setting is not used any more")
	}
	return client.NewPublisher(topics), nil
}

// pool opens one of the two pools. Both want a server that can be written to, so that after a
// failover they find the primary.
func (s *publishService) pool(ctx context.Context, name string, conns int) (*pgxpool.Pool, error) {
	params := cli.PoolParams{Name: name, MaxConns: int32(conns), Writable: true, Idle: s.idle}
	return s.app.OpenPool(ctx, s.cfg, params)
}

// unready is an error of the database before anything was begun: a precondition, whatever else it
// is.
func unready(err error) error {
	err = fault.Database(err)
	if _, known := fault.KindOf(err); known {
		return err
	}
	return fault.As(fault.Precondition, err)
}

// Run publishes until ctx ends.
func (s *publishService) Run(ctx context.Context) error {
	s.log.Info().Str("version", s.app.Build.Version).Bool("once", s.once).
		Str("catalogue", s.State().Catalogue.Source).Msg("publishing")
	began := time.Now()
	var done dispatch.Totals
	var err error
	if s.once {
		done, err = s.Once(ctx)
	} else {
		err = s.Dispatcher.Run(ctx)
	}
	state := s.State()
	s.log.Info().Int64("published", state.Published).Int("in_flight", state.InFlight).Dur("ran_ms", time.Since(began)).Msg("stopped")
	if err == nil && s.once {
		s.sayParked(context.WithoutCancel(ctx))
		s.sayPaused(context.WithoutCancel(ctx))
		return unfinished(state, done)
	}
	return err
}

// sayParked warns of events that a run with --once does not wait for, because an operator has to
// act first.
func (s *publishService) sayParked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, parkedTimeout)
	defer cancel()
	if sample, err := stats.TakeSample(ctx, s.claims, s.cfg.Publish.MaxAttempts); err == nil && sample.Parked > 0 {
		s.log.Warn().Int64("parked", sample.Parked).Int64("blocked_keys", sample.BlockedKeys).
			Msg("events wait behind a dead one of their ordering key: outboxctl dlq list --blocking")
	}
}

// sayPaused warns of events that a run with --once leaves because an operator has paused them.
func (s *publishService) sayPaused(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, parkedTimeout)
	defer cancel()
	o, err := s.app.Outbox(ctx)
	if err != nil {
		return
	}
	pauses, err := o.Pauses(ctx)
	if err != nil {
		return
	}
	for _, p := range pauses {
		s.log.Warn().Str(p.Kind, p.Value).Int64("events", p.Events).Str("actor", p.Actor).Str("note", p.Note).
			Msg("paused, and left alone: outboxctl resume ends it")
	}
}

// unfinished is what a run with --once leaves to be done: events that died or stay leased, and
// topics that took nothing.
func unfinished(state dispatch.State, done dispatch.Totals) error {
	var left, hints []string
	if done.Dead > 0 {
		left = append(left, fmt.Sprintf("%d died", done.Dead))
		hints = append(hints, "outboxctl dlq list --group-by fingerprint shows the causes")
	}
	switch {
	case done.Held > 0:
		left = append(left, fmt.Sprintf("%d stay leased until %s: the reply to a claim was lost, or an outcome could not be recorded",
			done.Held, done.HeldUntil.UTC().Format(time.RFC3339)))
		hints = append(hints, "run it again when the leases have ended")
	case done.Held < 0:
		left = append(left, "the database did not tell how many stay leased")
		hints = append(hints, "run it again when the leases have ended")
	}
	for _, t := range state.Topics {
		if t.State != dispatch.Healthy {
			left = append(left, fmt.Sprintf("topic %s is %s: %s", t.Topic, t.State, t.Error))
		}
	}
	if len(left) == 0 {
		return nil
	}
	if len(hints) < len(left) {
		hints = append(hints, "outboxctl topic list shows what the broker has; the events of a topic that takes nothing keep waiting")
	}
	failed := ""
	if done.Failed > 0 {
		failed = words.Counted(done.Failed, "attempt") + " failed, "
	}
	return fault.Hint(fault.Partialf("%s published, %sbut %s", words.Counted(done.Published, "event"), failed, strings.Join(left, "; ")),
		"%s", strings.Join(hints, "; "))
}

func (s *publishService) checks(group string) (checks []httpd.Check) {
	for _, c := range s.Checks() {
		checks = append(checks, httpd.Check{Group: group, Name: c.Name, Run: c.Run})
	}
	return checks
}
