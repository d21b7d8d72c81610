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
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/pgpool"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/telemetry"
)

// ErrRunning means that the dispatcher is running already.
var ErrRunning = errors.New("the dispatcher is running already")

// Dispatcher publishes the events of one outbox. Make it with New.
type Dispatcher struct {
	cfg      Config
	identity dispatch.Identity
	observe  dispatch.Observers
	history  *dispatch.History
	listener *dispatch.Listener
	backlog  *telemetry.Backlog // nil: no metrics
	metrics  func()             // gives the metrics back
	pools    []*pgxpool.Pool    // those to close

	live *registry.Live
	// engine is another one when the catalogue has changed.
	engine atomic.Pointer[dispatch.Dispatcher]
	// pauses is what was paused when the database was asked last.
	pauses atomic.Pointer[[]outbox.Pause]
	// pausesChanged makes the heartbeat tell of other pauses: an operator may wait until they are
	// obeyed.
	pausesChanged chan struct{}

	running sync.Mutex // held while it runs
	// once: the engine ends when nothing is left. used: it has run.
	once, used bool
}

// New connects to the database and looks whether its outbox is ready. It starts nothing: Run and
// Once do. Problems of the configuration are reported together.
func New(ctx context.Context, cfg Config) (_ *Dispatcher, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Dispatcher{metrics: func() {}, pausesChanged: make(chan struct{}, 1), identity: cfg.identity()}
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
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("publisher", d.identity.ID)
	d.cfg = cfg
	if err := outbox.CheckTables(ctx, cfg.Claims); err != nil {
		return nil, fmt.Errorf("look at the outbox: %w", err)
	}
	types := &registry.Registry{Catalogue: cfg.Catalogue, Source: cmp.Or(cfg.CatalogueName, "program")}
	if cfg.Catalogue == nil {
		if types, err = registry.Recorded(ctx, cfg.Claims); err != nil {
			return nil, err
		}
	}
	if d.live, err = registry.NewLive(ctx, cfg.Claims, types); err != nil {
		return nil, err
	}
	if err := d.observeAll(types); err != nil {
		return nil, err
	}
	d.listener = dispatch.NewListener(d.listen, d.observe)
	if err := d.readPauses(ctx); err != nil {
		return nil, err
	}
	return d, d.build(ctx, dispatch.Totals{})
}

// observeAll makes what tells of the dispatcher: log, history, traces and metrics.
func (d *Dispatcher) observeAll(types *registry.Registry) error {
	lines := telemetry.NewLog(d.cfg.Log)
	if d.cfg.LogPublished {
		lines.TellPublished()
	}
	d.history = &dispatch.History{DB: d.cfg.Claims, Observe: lines, Now: time.Now}
	d.observe = dispatch.Observers{lines, d.history}
	if d.cfg.Traces.Provider != nil {
		d.observe = append(d.observe, tracedFailures{traces: d.cfg.Traces})
	}
	if d.cfg.Metrics == nil {
		return nil
	}
	own := prometheus.NewRegistry()
	d.observe = append(d.observe, telemetry.NewMetrics(own, types.TopicNames()))
	d.backlog = telemetry.NewBacklog(own, func(ctx context.Context) (stats.Sample, error) {
		return stats.TakeSample(ctx, d.cfg.Claims, cmp.Or(d.cfg.Tuning.MaxAttempts, dispatch.DefaultMaxAttempts))
	}, d.current, d.observe.Trouble)
	if err := d.cfg.Metrics.Register(own); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	d.metrics = func() { d.cfg.Metrics.Unregister(own) }
	return nil
}

func (d *Dispatcher) current() (now telemetry.Current) {
	if engine := d.engine.Load(); engine != nil {
		now.Events, now.Bytes = engine.InFlight()
		now.StoodDown = len(d.stoodDown())
	}
	return now
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

// identity names this dispatcher to operators.
func (c Config) identity() dispatch.Identity {
	host, _ := os.Hostname() // a host without a name is still a host
	version := cmp.Or(c.Version, "embedded")
	if info, ok := debug.ReadBuildInfo(); ok && c.Version == "" && info.Main.Path != "" {
		version += " in " + info.Main.Path
	}
	return dispatch.Identity{ID: uuid.NewString(), Host: host, PID: os.Getpid(), Version: version}
}

// Run publishes until ctx ends. Then it stops claiming, gives back what it has not handed over and
// settles what is on its way, for at most Tuning.ShutdownTimeout. A database that goes away is
// waited for.
func (d *Dispatcher) Run(ctx context.Context) error {
	_, err := d.run(ctx, false)
	return err
}

// Once publishes until nothing is left to claim. Events that wait for their next attempt, or whose
// topic takes nothing, are not waited for.
func (d *Dispatcher) Once(ctx context.Context) (Totals, error) { return d.run(ctx, true) }

// ID is the dispatcher's in outbox_publishers, in the leases of events and in the log.
func (d *Dispatcher) ID() string { return d.identity.ID }

// Close gives back the metrics and closes the pools that New has opened. Run must have returned.
func (d *Dispatcher) Close() {
	d.metrics()
	for _, pool := range d.pools {
		pool.Close()
	}
}
