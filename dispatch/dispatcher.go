package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/pgpool"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/relay"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/telemetry"
)

// State is what a dispatcher reports of itself: what is in flight, what it has published, its topics and its catalogue.
// It is also the column outbox_publishers.state.
type State = dispatch.PublisherState

// Totals is what one run has done.
type Totals = dispatch.Totals

// ErrRunning means that the dispatcher is running already.
var ErrRunning = errors.New("the dispatcher is running already")

// Dispatcher publishes the events of one outbox. Make it with New.
type Dispatcher struct {
	relay   *relay.Relay
	backlog *telemetry.Backlog // nil: no metrics
	metrics func()             // gives the metrics back
	pools   []*pgxpool.Pool    // those to close
	running sync.Mutex         // held while it runs
}

// New connects to the database and looks whether its outbox is ready. It starts nothing: Run and Once do. Problems of the
// configuration are reported together.
func New(ctx context.Context, cfg Config) (_ *Dispatcher, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Dispatcher{metrics: func() {}}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if cfg.URL != "" {
		if err := d.open(ctx, &cfg); err != nil {
			return nil, err
		}
	}
	if err := outbox.CheckTables(ctx, cfg.Claims); err != nil {
		return nil, fmt.Errorf("look at the outbox: %w", err)
	}
	types := &registry.Registry{Catalogue: cfg.Catalogue, Source: "program"}
	if cfg.Catalogue == nil {
		if types, err = registry.Recorded(ctx, cfg.Claims); err != nil {
			return nil, err
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	identity := newIdentity()
	log := cfg.Log.With("publisher", identity.ID)
	observe := dispatch.Observers{telemetry.NewLog(log)}
	own := prometheus.NewRegistry()
	if cfg.Metrics != nil {
		observe = append(observe, telemetry.NewMetrics(own, types.TopicNames()))
	}
	d.relay, err = relay.New(ctx, relay.Params{
		Claims: cfg.Claims, Settles: cfg.Settles, Types: types, Follows: cfg.Catalogue == nil,
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, cfg.Claims.Config().ConnConfig)
		},
		Publisher: func(context.Context, *registry.Registry) (dispatch.Publisher, error) { return cfg.Publisher, nil },
		Scope:     dispatch.Scope{Namespace: cfg.Namespace}, Tuning: cfg.Tuning.internal(), Identity: identity, Observe: observe, Log: log,
	})
	if err != nil {
		return nil, err
	}
	if cfg.Metrics == nil {
		return d, nil
	}
	d.backlog = telemetry.NewBacklog(own, func(ctx context.Context) (stats.Sample, error) {
		return stats.TakeSample(ctx, cfg.Claims, cmp.Or(cfg.Tuning.MaxAttempts, dispatch.DefaultMaxAttempts))
	}, func() telemetry.Current { return current(d.relay) }, observe.Trouble)
	if err := cfg.Metrics.Register(own); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	d.metrics = func() { cfg.Metrics.Unregister(own) }
	return d, nil
}

func current(r *relay.Relay) telemetry.Current {
	rows, bytes := r.Dispatcher().InFlight()
	return telemetry.Current{Events: rows, Bytes: bytes, StoodDown: len(r.StoodDown())}
}

// open makes the two pools of a URL.
func (d *Dispatcher) open(ctx context.Context, cfg *Config) error {
	for _, p := range []struct {
		into     **pgxpool.Pool
		name     string
		maxConns int32
	}{
		{&cfg.Claims, "outbox dispatcher", int32(cmp.Or(cfg.Tuning.Workers, dispatch.DefaultWorkers)) + 2},
		{&cfg.Settles, "outbox dispatcher settle", dispatch.DefaultSettlers + 1},
	} {
		pc, err := pgpool.Config(cfg.URL, pgpool.Params{Name: p.name, MaxConns: p.maxConns, Writable: true})
		if err != nil {
			return fmt.Errorf("read the database's URL: %w", err)
		}
		pool, err := pgxpool.NewWithConfig(ctx, pc)
		if err != nil {
			return fmt.Errorf("connect to the database: %w", err)
		}
		*p.into, d.pools = pool, append(d.pools, pool)
	}
	return nil
}

// newIdentity names this dispatcher to operators.
func newIdentity() dispatch.Identity {
	host, _ := os.Hostname() // a host without a name is still a host
	version := "embedded"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path != "" {
		version += " in " + info.Main.Path
	}
	return dispatch.Identity{ID: uuid.NewString(), Host: host, PID: os.Getpid(), Version: version}
}

// Run publishes until ctx ends. Then it stops claiming, gives back what it has not handed over and settles what is on its
// way, for at most Tuning.ShutdownTimeout. A database that goes away is waited for.
func (d *Dispatcher) Run(ctx context.Context) error {
	return d.run(ctx, d.relay.Run)
}

// Once publishes until nothing is left to claim. Events that wait for their next attempt, or whose topic takes nothing,
// are not waited for.
func (d *Dispatcher) Once(ctx context.Context) (done Totals, err error) {
	err = d.run(ctx, func(ctx context.Context) (err error) {
		done, err = d.relay.Once(ctx)
		return err
	})
	return done, err
}

func (d *Dispatcher) run(ctx context.Context, run func(context.Context) error) error {
	if !d.running.TryLock() {
		return ErrRunning
	}
	defer d.running.Unlock()
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	var services sync.WaitGroup
	defer services.Wait()
	defer stop()
	if d.backlog != nil {
		services.Go(func() { d.backlog.Run(around) })
	}
	return run(ctx)
}

// Ready returns why not everything can be published now: the database, its claims, or a topic.
func (d *Dispatcher) Ready(ctx context.Context) error { return d.relay.Ready(ctx) }

// State reports what the dispatcher does.
func (d *Dispatcher) State() State { return d.relay.State() }

// Close gives back the metrics and closes the pools that New has opened. Run must have returned.
func (d *Dispatcher) Close() {
	d.metrics()
	for _, pool := range d.pools {
		pool.Close()
	}
}
