package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/relay"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/telemetry"
)

// parkedTimeout bounds the look at parked events at the end of a run with --once.
const parkedTimeout = 5 * time.Second

// publishService is a relay with what the command has around it: pools, broker, metrics, HTTP.
type publishService struct {
	app      *cli.App
	cfg      *cli.Config
	once     bool
	log      zerolog.Logger
	identity dispatch.Identity
	claims   *pgxpool.Pool
	settles  *pgxpool.Pool
	relay    *relay.Relay
	source   string
	observe  dispatch.Observers
	registry *prometheus.Registry
}

// newPublishService opens what a publisher needs. The pools belong to the app and are closed with it.
func newPublishService(ctx context.Context, opts *publishOptions, cfg *cli.Config, scope dispatch.Scope) (*publishService, error) {
	app := opts.app
	s := &publishService{app: app, cfg: cfg, once: opts.once, registry: prometheus.NewRegistry()}
	if err := s.tuning().Validate(); err != nil {
		return nil, cli.ConfigProblems(strings.Split(err.Error(), "\n")...)
	}
	host, _ := os.Hostname() // a host without a name is still a host
	s.identity = dispatch.Identity{ID: uuid.NewString(), Host: host, PID: os.Getpid(), Version: app.Build.Version}
	s.log = app.Log().With().Str("publisher", s.identity.ID).Logger()
	types, err := app.Registry(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, app); err != nil {
		return nil, err
	}
	log := slog.New(zerolog.NewSlogHandler(s.log))
	lines := telemetry.NewLog(log)
	if cfg.Publish.LogPublished {
		lines.TellPublished()
	}
	s.observe = dispatch.Observers{telemetry.NewMetrics(s.registry, types.TopicNames()), lines}
	telemetry.RegisterProcess(s.registry, app.Build.Version, app.Build.Commit, app.Build.Go)
	p := relay.Params{
		Claims: s.claims, Settles: s.settles, Types: types, Follows: app.FollowsDatabase(), Publisher: s.publisher,
		Scope: scope, EventTypes: opts.eventTypes, Tuning: s.tuning(), Identity: s.identity, Observe: s.observe, Log: log,
	}
	if cfg.Publish.Wake == "auto" {
		p.Connect = s.dial
	}
	s.source = types.Source
	s.relay, err = relay.New(ctx, p)
	return s, unready(err)
}

// publisher is Pub/Sub's, for the topics of a catalogue.
func (s *publishService) publisher(ctx context.Context, types *registry.Registry) (dispatch.Publisher, error) {
	client, err := s.app.Broker(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.app.UseRegistry(types); err != nil {
		// At the start it is an error. A catalogue that is followed may drop a topic, and must not end every publisher with it.
		s.log.Warn().Err(err).Msg("a setting is not used any more")
	}
	topics, err := s.app.Topics(ctx)
	if err != nil {
		return nil, err
	}
	return client.NewPublisher(topics), nil
}

// tuning is the dispatcher's configuration.
func (s *publishService) tuning() dispatch.Config {
	p := s.cfg.Publish
	return dispatch.Config{
		BatchSize: p.BatchSize, PollInterval: p.PollInterval, MaxAttempts: p.MaxAttempts,
		Lease: p.Lease, PublishTimeout: p.PublishTimeout,
		Backoff: dispatch.Backoff{Base: p.BackoffBase, Max: p.BackoffMax},
		Workers: p.Workers, ShutdownTimeout: p.ShutdownTimeout, Once: s.once,
	}
}

// open opens two pools: settling must never wait for a connection that claims hold. Both want a server that can be
// written to, so that after a failover they find the primary.
func (s *publishService) open(ctx context.Context, app *cli.App) error {
	for _, p := range []struct {
		into     **pgxpool.Pool
		name     string
		maxConns int32
	}{
		{&s.claims, "outboxctl publish", int32(s.cfg.Publish.Workers) + 2},
		{&s.settles, "outboxctl publish settle", dispatch.DefaultSettlers + 1},
	} {
		pool, err := cli.OpenPool(ctx, s.cfg, cli.PoolParams{Name: p.name, MaxConns: p.maxConns, Writable: true})
		if err != nil {
			return err
		}
		*p.into = pool
		app.OnClose(func() error { pool.Close(); return nil })
	}
	// A database without our tables is an error now, not a line in the log every second.
	return unready(outbox.CheckTables(ctx, s.claims))
}

// unready is an error of the database before anything was begun: a precondition, whatever else it is.
func unready(err error) error {
	if err == nil {
		return nil
	}
	err = fault.Database(err)
	if _, known := fault.KindOf(err); known {
		return err
	}
	return fault.Preconditionf("look at the outbox: %w", err)
}

// dial opens the connection that listens.
func (s *publishService) dial(ctx context.Context) (*pgx.Conn, error) {
	pc, err := cli.PoolConfig(s.cfg, cli.PoolParams{Name: "outboxctl publish listen", Writable: true})
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, pc.ConnConfig)
}

// Run publishes until ctx ends. The server outlives the dispatcher, so that a draining publisher still answers.
func (s *publishService) Run(ctx context.Context) error {
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	services, around := errgroup.WithContext(around)
	if err := s.serveHTTP(around, services); err != nil {
		return err
	}
	s.log.Info().Str("version", s.identity.Version).Bool("once", s.once).Str("catalogue", s.source).Msg("publishing")
	began := time.Now()
	// A server that stops answering ends the publisher too: its monitoring must not be blind.
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(around, cancel)
	err := s.relay.Run(running)
	state := s.relay.State()
	stop()
	err = errors.Join(err, services.Wait())
	s.log.Info().Int64("published", state.Published).Int("in_flight", state.InFlight).Dur("ran_ms", time.Since(began)).Msg("stopped")
	if err == nil && s.once {
		s.sayParked(context.WithoutCancel(ctx))
		s.sayPaused(context.WithoutCancel(ctx))
		return unfinished(state, s.relay.Dispatcher().Totals())
	}
	return err
}

// sayParked warns of events that a run with --once does not wait for, because an operator has to act first.
func (s *publishService) sayParked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, parkedTimeout)
	defer cancel()
	if sample, err := s.sample(ctx); err == nil && sample.Parked > 0 {
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
			Msg("paused, and left alone: outboxctl resume lifts it")
	}
}

// unfinished is what a run with --once leaves to be done: events that died or stay leased, and topics that took nothing.
func unfinished(state dispatch.PublisherState, done dispatch.Totals) error {
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
		if t.State != dispatch.TopicHealthy {
			left = append(left, fmt.Sprintf("topic %s is %s: %s", t.Topic, t.State, t.Error))
		}
	}
	if len(left) == 0 {
		return nil
	}
	if len(hints) < len(left) {
		hints = append(hints, "outboxctl topic list shows what the broker has; the events of a topic that takes nothing keep waiting")
	}
	return fault.Hint(fault.Partialf("%d events published, %d attempts failed, but %s", done.Published, done.Failed, strings.Join(left, "; ")),
		"%s", strings.Join(hints, "; "))
}

// serveHTTP starts the server where one is wanted. A drain of a few seconds does not fight a running publisher for its
// port: with --once the address must have been chosen.
func (s *publishService) serveHTTP(ctx context.Context, services *errgroup.Group) error {
	addr := s.cfg.Publish.HTTPAddr
	if addr == "" || (s.once && s.cfg.Origin("publish.http_addr") == cli.OriginDefault) {
		return nil
	}
	backlog := telemetry.NewBacklog(s.registry, s.sample, s.current, s.observe.Trouble)
	server, err := httpd.Listen(ctx, httpd.Params{Addr: addr, Health: s.health(), Ready: s.ready, Metrics: s.registry})
	if err != nil {
		return fault.Hint(fault.As(fault.Precondition, err), "--http-addr 127.0.0.1:0 picks a free port, an empty one serves nothing")
	}
	s.log.Info().Str("addr", server.Addr()).Msg("serving /healthz, /readyz and /metrics")
	services.Go(func() error { return server.Run(ctx) })
	services.Go(func() error { backlog.Run(ctx); return nil })
	return nil
}

// health asks whether the loop moves. It waits at most for room in flight, which the broker's time-out bounds.
func (s *publishService) health() []httpd.Check {
	patience := 2*s.cfg.Publish.PublishTimeout + s.cfg.Publish.Lease
	return []httpd.Check{{Name: "loop", Run: func(context.Context) error {
		if still := time.Since(s.relay.Dispatcher().LastPulse()); still > patience {
			return fmt.Errorf("the loop has not moved for %s", still.Round(time.Second))
		}
		return nil
	}}}
}

func (s *publishService) ready() (checks []httpd.Check) {
	for _, c := range s.relay.Checks() {
		checks = append(checks, httpd.Check(c))
	}
	return checks
}

func (s *publishService) current() telemetry.Current {
	rows, bytes := s.relay.Dispatcher().InFlight()
	return telemetry.Current{Events: rows, Bytes: bytes, StoodDown: len(s.relay.StoodDown())}
}

func (s *publishService) sample(ctx context.Context) (stats.Sample, error) {
	return stats.TakeSample(ctx, s.claims, s.cfg.Publish.MaxAttempts)
}
