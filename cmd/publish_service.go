package cmd

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/telemetry"
)

// publishService is a dispatcher with everything around it: pools, broker, heartbeat, wake-up, metrics, HTTP.
type publishService struct {
	cfg        *cli.Config
	once       bool
	log        zerolog.Logger
	identity   dispatch.Identity
	claims     *pgxpool.Pool
	settles    *pgxpool.Pool
	dispatcher *dispatch.Dispatcher
	listener   *dispatch.Listener // nil: polling only
	observers  dispatch.Observers
	registry   *prometheus.Registry
}

// newPublishService opens what a publisher needs. The pools belong to the app and are closed with it.
func newPublishService(ctx context.Context, app *cli.App, cfg *cli.Config, scope dispatch.Scope, once bool) (*publishService, error) {
	types := scope.EventTypes
	if len(types) == 0 {
		types = app.Registry.EventTypes()
	}
	tuning := dispatch.Config{
		BatchSize: cfg.Publish.BatchSize, PollInterval: cfg.Publish.PollInterval, MaxAttempts: cfg.Publish.MaxAttempts,
		Lease: cfg.Publish.Lease, PublishTimeout: cfg.Publish.PublishTimeout,
		Backoff: dispatch.Backoff{Base: cfg.Publish.BackoffBase, Max: cfg.Publish.BackoffMax},
		Workers: cfg.Publish.Workers, ShutdownTimeout: cfg.Publish.ShutdownTimeout, Once: once, EventTypes: types,
	}
	if err := tuning.Validate(); err != nil {
		return nil, cli.ConfigProblems(strings.Split(err.Error(), "\n")...)
	}
	s := &publishService{cfg: cfg, once: once, registry: prometheus.NewRegistry()}
	host, _ := os.Hostname() // a host without a name is still a host
	s.identity = dispatch.Identity{ID: uuid.NewString(), Host: host, PID: os.Getpid(), Version: app.Build.Version}
	s.log = app.Log().With().Str("publisher", s.identity.ID).Logger()
	if err := s.open(ctx, app); err != nil {
		return nil, err
	}
	client, err := app.Broker(ctx)
	if err != nil {
		return nil, err
	}
	metrics := telemetry.NewMetrics(s.registry, topicsOf(app, types))
	telemetry.RegisterBuildInfo(s.registry, app.Build.Version, app.Build.Commit, app.Build.Go)
	s.observers = dispatch.Observers{metrics, telemetry.NewLog(s.log)}
	var waker dispatch.Waker
	if cfg.Publish.Wake == "auto" && !once {
		s.listener = dispatch.NewListener(s.dial, s.observers)
		waker = s.listener
	}
	store := dispatch.NewSQLStore(s.claims, s.settles, s.identity.ID, scope)
	s.dispatcher, err = dispatch.New(tuning, store, client.NewPublisher(cfg.PubSub.Topics), app.Registry, s.observers, waker)
	return s, err
}

// topicsOf lists the topics that event types go to.
func topicsOf(app *cli.App, types []string) []string {
	var topics []string
	seen := map[string]bool{}
	for _, t := range types {
		if _, topic, ok := app.Registry.Resolve(t); ok && !seen[topic] {
			seen[topic] = true
			topics = append(topics, topic)
		}
	}
	return topics
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
	return operate.StoreError(outbox.CheckTables(ctx, s.claims))
}

// dial opens the connection that listens.
func (s *publishService) dial(ctx context.Context) (*pgx.Conn, error) {
	pc, err := cli.PoolConfig(s.cfg, cli.PoolParams{Name: "outboxctl publish listen", Writable: true})
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, pc.ConnConfig)
}

// Run publishes until ctx ends. What stands around the dispatcher outlives it, so that a draining publisher still
// answers and is still seen.
func (s *publishService) Run(ctx context.Context) error {
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	services, around := errgroup.WithContext(around)
	if err := s.serveHTTP(around, services); err != nil {
		return err
	}
	heartbeat := &dispatch.Heartbeat{DB: s.claims, Identity: s.identity, State: s.dispatcher.State, Observe: s.observers}
	services.Go(func() error { heartbeat.Run(around); return nil })
	if s.listener != nil {
		services.Go(func() error { s.listener.Run(around); return nil })
	}
	s.log.Info().Str("version", s.identity.Version).Bool("once", s.once).Msg("publishing")
	began := time.Now()
	// A server that stops answering ends the publisher too: whoever watches it must not be blind.
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(around, cancel)
	err := s.dispatcher.Run(running)
	state := s.dispatcher.State()
	stop()
	err = errors.Join(err, services.Wait())
	s.log.Info().Int64("published", state.Published).Int("in_flight", state.InFlight).Dur("ran_ms", time.Since(began)).Msg("stopped")
	if err == nil && s.once {
		return unfinished(state, s.dispatcher.Totals())
	}
	return err
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
	backlog := telemetry.NewBacklog(s.registry, s.sample, s.dispatcher.InFlight, s.observers.Trouble)
	server, err := httpd.Listen(ctx, httpd.Params{Addr: addr, Health: s.health(), Ready: s.ready(), Metrics: s.registry})
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
		if still := time.Since(s.dispatcher.LastPulse()); still > patience {
			return fmt.Errorf("the loop has not moved for %s", still.Round(time.Second))
		}
		return nil
	}}}
}

func (s *publishService) ready() []httpd.Check {
	checks := []httpd.Check{
		{Name: "database", Run: s.claims.Ping},
		{Name: "claims", Run: func(context.Context) error { return s.dispatcher.ClaimsReady() }},
	}
	for _, topic := range s.dispatcher.TopicNames() {
		checks = append(checks, httpd.Check{Name: "topic " + topic, Run: func(ctx context.Context) error {
			return s.dispatcher.TopicReady(ctx, topic)
		}})
	}
	return checks
}

func (s *publishService) sample(ctx context.Context) (stats.Sample, error) {
	return stats.TakeSample(ctx, s.claims, s.cfg.Publish.MaxAttempts)
}
