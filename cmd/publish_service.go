package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/cli"
	engine "github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/telemetry"
	"github.com/outboxctl/outboxctl/internal/words"
)

// parkedTimeout bounds the look at parked events at the end of a run with --once.
const parkedTimeout = 5 * time.Second

// publishService is a dispatcher with what the command has around it: pools, broker, HTTP.
type publishService struct {
	*dispatch.Dispatcher
	app     *cli.App
	cfg     *cli.Config
	once    bool
	log     zerolog.Logger
	claims  *pgxpool.Pool
	metrics *prometheus.Registry // nil: nothing is served
}

// newPublishService opens what a publisher needs. Pools and dispatcher are closed with the app.
func newPublishService(ctx context.Context, opts *publishOptions, cfg *cli.Config) (*publishService, error) {
	app, p := opts.app, cfg.Publish
	s := &publishService{app: app, cfg: cfg, once: opts.once, log: app.Log()}
	config := dispatch.Config{
		Namespace: opts.namespace, TenantID: opts.tenant, EventTypes: opts.eventTypes,
		NewPublisher: s.publisher, PollOnly: p.Wake != "auto", Version: app.Build.Version,
		Log: slog.New(zerolog.NewSlogHandler(s.log)), LogPublished: p.LogPublished,
		Tuning: dispatch.Tuning{
			BatchSize: p.BatchSize, PollInterval: p.PollInterval, MaxAttempts: p.MaxAttempts,
			Lease: p.Lease, PublishTimeout: p.PublishTimeout, BackoffBase: p.BackoffBase, BackoffMax: p.BackoffMax,
			Workers: p.Workers, ShutdownTimeout: p.ShutdownTimeout,
		},
	}
	if err := config.Tuning.Validate(); err != nil {
		return nil, cli.ConfigProblems(strings.Split(err.Error(), "\n")...)
	}
	types, err := app.Registry(ctx)
	if err != nil {
		return nil, err
	}
	if config.CatalogueName = types.Source; !app.FollowsDatabase() {
		config.Catalogue = types.Catalogue
	}
	if s.serves() {
		s.metrics = prometheus.NewRegistry()
		config.Metrics = s.metrics
		telemetry.RegisterProcess(s.metrics, app.Build.Version, app.Build.Commit, app.Build.Go)
	}
	if config.Claims, err = s.pool(ctx, "outboxctl publish", p.Workers+2); err != nil {
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

// publisher is Pub/Sub's, for the topics of a catalogue.
func (s *publishService) publisher(ctx context.Context, types *catalogue.Catalogue) (dispatch.Publisher, error) {
	client, err := s.app.Broker(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := s.app.TopicsOf(types)
	if err != nil {
		// At the start it is an error. A catalogue that is followed may drop a topic, and must not end every publisher with it.
		s.log.Warn().Err(err).Msg("a setting is not used any more")
	}
	return client.NewPublisher(topics), nil
}

// pool opens one of the two pools. Both want a server that can be written to, so that after a failover they find the
// primary.
func (s *publishService) pool(ctx context.Context, name string, conns int) (*pgxpool.Pool, error) {
	pool, err := cli.OpenPool(ctx, s.cfg, cli.PoolParams{Name: name, MaxConns: int32(conns), Writable: true})
	if err == nil {
		s.app.OnClose(func() error { pool.Close(); return nil })
	}
	return pool, err
}

// unready is an error of the database before anything was begun: a precondition, whatever else it is.
func unready(err error) error {
	err = fault.Database(err)
	if _, known := fault.KindOf(err); known {
		return err
	}
	return fault.As(fault.Precondition, err)
}

// Run publishes until ctx ends. The server outlives the dispatcher, so that a draining publisher still answers.
func (s *publishService) Run(ctx context.Context) error {
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	services, around := errgroup.WithContext(around)
	if err := s.serveHTTP(around, services); err != nil {
		return err
	}
	s.log.Info().Str("version", s.app.Build.Version).Bool("once", s.once).
		Str("catalogue", s.State().Catalogue.Source).Msg("publishing")
	began := time.Now()
	// A server that stops answering ends the publisher too: its monitoring must not be blind.
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(around, cancel)
	var done dispatch.Totals
	var err error
	if s.once {
		done, err = s.Once(running)
	} else {
		err = s.Dispatcher.Run(running)
	}
	state := s.State()
	stop()
	err = errors.Join(err, services.Wait())
	s.log.Info().Int64("published", state.Published).Int("in_flight", state.InFlight).Dur("ran_ms", time.Since(began)).Msg("stopped")
	if err == nil && s.once {
		s.sayParked(context.WithoutCancel(ctx))
		s.sayPaused(context.WithoutCancel(ctx))
		return unfinished(state, done)
	}
	return err
}

// sayParked warns of events that a run with --once does not wait for, because an operator has to act first.
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

// unfinished is what a run with --once leaves to be done: events that died or stay leased, and topics that took nothing.
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
	return fault.Hint(fault.Partialf("%s published, %s failed, but %s", words.Counted(int64(done.Published), "event"),
		words.Counted(int64(done.Failed), "attempt"), strings.Join(left, "; ")),
		"%s", strings.Join(hints, "; "))
}

// serves reports whether a server is wanted. A drain of a few seconds does not fight a running publisher for its port:
// with --once the address must have been chosen.
func (s *publishService) serves() bool {
	return s.cfg.Publish.HTTPAddr != "" && (!s.once || s.cfg.Origin("publish.http_addr") != cli.OriginDefault)
}

// serveHTTP starts the server where one is wanted.
func (s *publishService) serveHTTP(ctx context.Context, services *errgroup.Group) error {
	if !s.serves() {
		return nil
	}
	server, err := httpd.Listen(ctx, httpd.Params{
		Addr: s.cfg.Publish.HTTPAddr, Health: []httpd.Check{{Name: "loop", Run: s.Alive}}, Ready: s.ready, Metrics: s.metrics,
	})
	if err != nil {
		return fault.Hint(fault.As(fault.Precondition, err), "--http-addr 127.0.0.1:0 picks a free port, an empty one serves nothing")
	}
	s.log.Info().Str("addr", server.Addr()).Msg("serving /healthz, /readyz and /metrics")
	services.Go(func() error { return server.Run(ctx) })
	return nil
}

func (s *publishService) ready() (checks []httpd.Check) {
	for _, c := range s.Checks() {
		checks = append(checks, httpd.Check(c))
	}
	return checks
}
