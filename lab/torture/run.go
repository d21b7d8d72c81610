// Package torture runs the whole system for minutes under faults and writes down what happened.
//
// Real PostgreSQL with a wrong clock, real Redis, three publishers and two consumers as processes
// of their own, each publisher behind network proxies of its own, Google's Pub/Sub fake behind a
// wrapper that records every message and can lose replies. Producers commit, roll back, commit late
// and lose the reply of their COMMIT; operators look, replay, discard, clean up and migrate
// meanwhile. A seed fixes the workload and the plan of faults; failpoints put crashes into the
// windows that matter.
//
// The run judges nothing. It leaves a [history.History], and [check.Check] says afterwards whether
// an invariant was broken, or whether the run had too little load or too few faults to prove
// anything.
package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// What every run has in common. The times are short so that a run of minutes sees every lease end
// and every backoff grow; the relations between them are those of the defaults.
const (
	publishers = 3
	producers  = 64
	aggregates = 1000
	// orderedAggregates of them are the ordering key of the events that are emitted for them.
	orderedAggregates = 100
	// looseKeys are the ordering keys of events that are emitted without a lock.
	looseKeys = "loose/"

	lease           = 8 * time.Second
	publishTimeout  = 4 * time.Second
	shutdownTimeout = 3 * time.Second
	backoffBase     = 100 * time.Millisecond
	backoffMax      = 2 * time.Second
	pollInterval    = 200 * time.Millisecond
	maxInFlight     = 4000

	cleanupAge = 20 * time.Second

	// quiet is how long the system has, beyond one lease, to finish after the last fault.
	quiet = 10 * time.Second
	// noticeTime is how long PostgreSQL has to notice that a client has gone.
	noticeTime = 5 * time.Second
	// DefaultPatience is how long consumers may take after that: a message in the hands of a killed
	// one comes back when the broker's deadline has passed, and waits for the dead one's lease in
	// Redis.
	DefaultPatience = 2 * time.Minute
)

// Config of a run.
type Config struct {
	// Seed fixes the workload and the faults.
	Seed uint64
	// Duration is how long producers and faults go on.
	Duration time.Duration
	// Rate is the number of events per second that are to be committed.
	Rate int
	// Program is outboxctl, built with the tag failpoints.
	Program string
	// Worker is the command line of the consumer that Redis alone guards.
	Worker []string
	// Dir takes the servers' state, the processes' logs and the history.
	Dir string
	// FakeTime is the path of libfaketime. Empty: the database's clock is right, and that is one fault
	// less.
	FakeTime string
	// Broker is what publishers publish to: one of rig.Fronts.
	Broker string
	// Only, when not empty, narrows the faults to these kinds, or to kinds with a detail as in
	// "publisher.crash:settle.sent".
	Only []string
	// Patience with the consumers at the end.
	Patience time.Duration
	// Log gets a line now and then.
	Log io.Writer
}

func (c Config) validate() error {
	var errs []error
	if c.Duration < 10*time.Second {
		errs = append(errs, errors.New("duration must be at least 10s"))
	}
	if c.Rate < 1 {
		errs = append(errs, errors.New("rate must be at least 1"))
	}
	if c.Program == "" || len(c.Worker) == 0 || c.Dir == "" {
		errs = append(errs, errors.New("program, worker and folder must be given"))
	}
	if !slices.Contains(rig.Fronts(), c.Broker) {
		errs = append(errs, fmt.Errorf("no such broker: %q", c.Broker))
	}
	return errors.Join(errs...)
}

// HistoryFile is the name of the history in Config.Dir.
const HistoryFile = "history.jsonl"

// Run tortures a system of its own and returns the path of its history. An error means that the run
// could not be carried through; what it found is for the checker to say.
func Run(ctx context.Context, cfg Config) (path string, err error) {
	if err := cfg.validate(); err != nil {
		return "", err
	}
	path = filepath.Join(cfg.Dir, HistoryFile)
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("create the history: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rec := history.NewRecorder(file)
	defer func() { err = errors.Join(err, rec.Close()) }()

	w, err := newWorld(ctx, cfg, rec)
	defer func() { err = errors.Join(err, w.Close()) }()
	if err != nil {
		return path, err
	}
	t := &torture{world: w, run: describe(cfg, w.skew)}
	return path, t.perform(ctx)
}

func describe(cfg Config, skew time.Duration) history.Run {
	faults := plan(cfg)
	run := history.Run{
		Seed: cfg.Seed, Duration: cfg.Duration, Rate: cfg.Rate, Lease: lease, CleanupAge: cleanupAge, MaxInFlight: maxInFlight, ClockSkew: skew,
		// Half of the rate asked for is still a load; fault upon fault costs the rest.
		MinEvents: cfg.Rate * int(cfg.Duration/time.Second) / 2,
		// A failpoint may lie where chance does not lead in time.
		MinFaults: len(faults) * 8 / 10,
		Consumers: []string{exampleConsumer, workerConsumer}, HandledTypes: []string{handledType},
		InboxGuarded: []string{exampleConsumer},
		NeedCrashes:  slices.Concat(failpoint.Publisher(), failpoint.Consumer(), failpoint.Operator()),
		LooseKeys:    "default/" + looseKeys, MinOrder: minOrder(cfg.Duration),
	}
	for _, f := range faults {
		if !slices.Contains(run.NeedFaults, f.kind) {
			run.NeedFaults = append(run.NeedFaults, f.kind)
		}
	}
	return run
}

// minOrder is what a run does to ordering keys at the least, in proportion to how long it lasts.
func minOrder(lasts time.Duration) map[string]int {
	least := map[string]int{}
	for what, perHour := range map[string]int{check.OrderReplays: 150, check.OrderDiscards: 60,
		check.OrderRestores: 60, check.OrderExpired: 300, check.OrderParked: 600} {
		least[what] = int(lasts * time.Duration(perHour) / time.Hour)
	}
	return least
}

type torture struct {
	*world
	run history.Run

	producing sync.WaitGroup
	operating sync.WaitGroup
}

// perform lets producers, operators and faults loose, waits for the system to come to rest and
// reads what is left.
func (t *torture) perform(ctx context.Context) error {
	t.run.Started = time.Now()
	t.rec.Add(t.run)
	producing, endProducing := context.WithCancel(ctx)
	defer endProducing()
	operator := t.startOperator(producing)
	t.startProducers(producing)
	_, _ = fmt.Fprintf(t.cfg.Log, "seed %d: %s at %d events/s, the database's clock is off by %s\n",
		t.cfg.Seed, t.cfg.Duration, t.cfg.Rate, t.skew.Round(time.Millisecond))
	rig.Pause(ctx, 3*time.Second) // under load, before the first fault
	first := t.measure()

	in := &injector{world: t.world, random: t.random(4), operator: operator,
		busy: map[string]*sync.Mutex{}}
	in.run(ctx, plan(t.cfg))
	rig.Pause(ctx, time.Until(t.run.Started.Add(t.cfg.Duration)))
	endProducing()
	t.producing.Wait()
	t.operating.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return rig.Carry(func() { t.settle(ctx, operator.shell, first) })
}

func (t *torture) startOperator(ctx context.Context) *operator {
	url := rig.WithParams(t.Postgres.URL(outboxDatabase), "application_name", "operator")
	o := &operator{shell: t.shell(url), random: t.random(3), crashes: make(chan crash)}
	t.operating.Go(func() { o.run(ctx) })
	return o
}

func (t *torture) startProducers(ctx context.Context) {
	url := rig.WithParams(rig.WithHost(t.Postgres.URL(outboxDatabase), t.cutter.Addr()),
		"application_name", "producer", "connect_timeout", "5")
	quota := &quota{since: time.Now(), rate: t.cfg.Rate}
	for i := range producers {
		p := &producer{
			name: fmt.Sprintf("producer-%d", i+1), url: url, quota: quota, rec: t.rec,
			source: &source{t.random(uint64(100 + i))}, catalog: registry.New(),
		}
		t.producing.Go(func() { p.run(ctx) })
	}
	cli := t.shell(rig.WithHost(url, t.scriptCutter.Addr()))
	t.producing.Go(func() { cli.script(ctx, &source{t.random(99)}) })
}

// connectionsLeft counts what is connected although all processes have ended. The server needs a
// moment to notice who went last; what is still there after noticeTime stays.
func (t *torture) connectionsLeft(ctx context.Context) (left int) {
	_ = rig.Eventually(ctx, noticeTime, func() bool {
		rig.Check(t.truth.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE `+others).Scan(&left))
		return left == 0
	})
	return left
}

// settle replays what the broker takes by now, gives everything its time and reads the state at the
// end of it.
func (t *torture) settle(ctx context.Context, sh *shell, first map[string]int) {
	t.release(ctx, sh)
	t.run.LastFault = time.Now()
	_, _ = fmt.Fprintf(t.cfg.Log, "faults and producers are done; %s until the outbox must be empty\n", lease+quiet)
	rig.Pause(ctx, lease+quiet)
	t.compareStats(ctx, sh)
	last := t.measure()
	t.collect(ctx)
	t.run.Ended = time.Now()
	t.awaitConsumers(ctx)
	t.compare(first, last)
	t.collectEffects(ctx)
	for _, p := range t.processes {
		if err := p.stop(ctx, shutdownTimeout+20*time.Second); err != nil {
			p.note(err)
		}
	}
	t.rec.Add(history.Resource{Name: "postgres connections after all processes ended",
		Last: t.connectionsLeft(ctx)})
	t.rec.Add(t.run)
}

// release has an operator replay the events that only the broker's mood had killed, and discard the
// dead ones that others wait for, until none does. What is still parked after a minute in which it
// did not get less, the checker reports.
func (t *torture) release(ctx context.Context, sh *shell) {
	t.Broker.Heal()
	least, since := math.MaxInt, time.Now()
	for ; time.Since(since) < time.Minute && ctx.Err() == nil; rig.Pause(ctx, 500*time.Millisecond) {
		var healed, blocking []string
		var waiting int
		rig.Check(t.truth.QueryRow(ctx, `SELECT coalesce(array_agg(l.id::text) FILTER (WHERE e.headers ? $1 AND l.state <> 'replayed'), '{}'),
			coalesce(array_agg(l.id::text) FILTER (WHERE NOT e.headers ? $1 AND l.state = 'open' AND e.ordering_key IS NOT NULL), '{}'),
			(SELECT count(*) FROM outbox_events WHERE ordering_key IS NOT NULL AND published_at IS NULL AND passed_at IS NULL)
			FROM outbox_dlq AS l JOIN outbox_events AS e ON e.id = l.event_id`, rig.HeaderHeal).Scan(&healed, &blocking, &waiting))
		switch left := len(healed) + len(blocking) + waiting; {
		case left == 0:
			return
		case left < least:
			least, since = left, time.Now()
		}
		for chunk := range slices.Chunk(healed, 500) {
			sh.change(ctx, "dlq restore", chunk)
			sh.change(ctx, "dlq replay", chunk, "--force")
		}
		for chunk := range slices.Chunk(blocking, 500) {
			sh.change(ctx, "dlq discard", chunk)
		}
	}
	rig.Check(ctx.Err())
}

// awaitConsumers gives the consumers time to handle what was published. What is missing then, the
// checker reports.
func (t *torture) awaitConsumers(ctx context.Context) {
	var want int
	rig.Check(t.truth.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox_events WHERE event_type = $1 AND published_at IS NOT NULL) +
		(SELECT count(*) FROM torture_removed WHERE event_type = $1)`, handledType).Scan(&want))
	_ = rig.Eventually(ctx, t.cfg.Patience, func() (done bool) {
		rig.Check(t.outcome.QueryRow(ctx, `SELECT least((SELECT count(DISTINCT event_id) FROM notifications),
			(SELECT count(*) FROM torture_effects)) >= $1`, want).Scan(&done))
		return done || !rig.Pause(ctx, time.Second) // counting costs
	})
	rig.Check(ctx.Err())
}
