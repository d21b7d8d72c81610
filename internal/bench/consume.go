package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// The criteria of a consumer.
const (
	minConsumeRate     = 2_000.0 // events per second
	maxRedisRoundTrips = 2.0     // per event: begin and done
)

// consumerName is what the consumer's connections are called.
const consumerName = "outboxctl bench consume"

// ErrEffects means that a consumer's figures mean nothing.
var ErrEffects = errors.New("not every event took effect exactly once")

// Consumption is what a consumer did with the events.
type Consumption struct {
	// Redis is the server the keys were kept on.
	Redis       string `json:"redis"`
	Concurrency int    `json:"concurrency"`
	// RedisRoundTrips is how often Redis was asked, per event.
	RedisRoundTrips float64 `json:"redisRoundTripsPerEvent"`
	// Handle is the time from an event's lease to its done mark.
	Handle Percentiles `json:"handle"`
	// Redeliveries are messages that came again and were turned away, Failures
	// handlers that had to be run again.
	Redeliveries int64 `json:"redeliveries"`
	Failures     int64 `json:"failures"`
	// Effects, Inbox and Marks are what is there afterwards: notices, inbox rows
	// and done keys of events that were emitted. Each must equal the events.
	Effects int64 `json:"effects"`
	Inbox   int64 `json:"inboxRows"`
	Marks   int64 `json:"doneMarks"`
	// Repeated counts events with more than one notice.
	Repeated int64 `json:"repeated"`
}

// exact reports whether every event took effect once, and is remembered.
func (c *Consumption) exact(events int64) bool {
	return c.Effects == events && c.Inbox == events && c.Marks == events && c.Repeated == 0
}

// consuming emits and publishes events, unmeasured, and measures the example
// consumer as outboxctl consume runs it.
func consuming(ctx context.Context, s *Session) (*Report, error) {
	p := s.Params
	dir, err := newScratchDir()
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.remove() }() // the next bench sweeps it
	redis, err := devstack.StartRedis(ctx, devstack.RedisParams{Dir: dir.path})
	if err != nil {
		return nil, err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		_ = redis.Stop(stopping) // nothing in it is kept
	}()
	return s.With(ctx, p, func(r *Trial) (*Report, error) {
		r.licenses, r.recorder.keep = true, true
		p.Progress("consume: emitting and publishing %d events", p.Events)
		if err := r.Emit(ctx, p.Events); err != nil {
			return nil, err
		}
		if _, err := r.DrainInside(ctx); err != nil {
			return nil, err
		}
		p.Progress("consume: consuming, keys on %s", redis.Kind)
		report, ids, err := r.measureConsume(ctx, redis)
		if err != nil {
			return nil, err
		}
		if report.Delivery, err = r.recorder.verify(ctx, r.DB); err != nil {
			return nil, fmt.Errorf("compare broker and table: %w", err)
		}
		if !report.Delivery.Exact() {
			return report, fmt.Errorf("%w: %+v", ErrWrong, report.Delivery)
		}
		if !report.Consume.exact(int64(len(ids))) {
			return report, fmt.Errorf("%w: of %d events %+v", ErrEffects, len(ids), *report.Consume)
		}
		if p.Check {
			report.AtLeast("events per second", report.EventsPerSecond, minConsumeRate)
			report.AtMost("Redis round trips per event", report.Consume.RedisRoundTrips, maxRedisRoundTrips)
		}
		return report, nil
	})
}

// measureConsume has the messages consumed and looks at what came of it.
func (r *Trial) measureConsume(ctx context.Context, redis *devstack.Redis) (*Report, []uuid.UUID, error) {
	rdb, err := consume.NewClient(redis.URL())
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rdb.Close() }()
	guard, err := consume.New(rdb, notifications.Consumer, consume.Options{})
	if err != nil {
		return nil, nil, err
	}
	if _, err := wait.Patiently(ctx, guard.Check); err != nil { // as the command does at start
		return nil, nil, err
	}
	pool, err := r.DB.Open(ctx, consumerName, consumer.DefaultConnections)
	if err != nil {
		return nil, nil, err
	}
	defer pool.Close()
	if err := notifications.CreateTable(ctx, pool); err != nil {
		return nil, nil, err
	}
	// Acknowledged copies count as well as events do, so the end is that of the last event.
	running, stop := context.WithCancel(ctx)
	defer stop()
	trips, handled := &roundTrips{}, newHandling(r.Params.Events, stop)
	rdb.AddHook(trips)
	worker := consumer.New(&feed{r.recorder.kept}, guard, consumer.Config{
		IdleExit: Patience, Hooks: consumer.Hooks{AfterBegin: handled.begin, AfterDone: handled.done},
	})
	worker.Router.HandleBatch(notifications.EventType, pool, consume.BatchOptions{}, notifications.Write)
	before, err := r.DB.Counters(ctx)
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	done, err := worker.Run(running)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, nil, fmt.Errorf("consume: %w", err)
	}
	report := r.NewReport()
	// A worker that waited in vain is not slow but wrong, and will be called so.
	report.Took(handled.last.Sub(began))
	report.MemoryBytes = ResidentPeak(os.Getpid())
	pool.Close()
	after, err := r.DB.countersWithout(ctx, consumerName)
	if err != nil {
		return nil, nil, err
	}
	report.WALBytesPerEvent = float64(after.wal-before.wal) / float64(report.Events)
	report.Spent = spent(before, after, 0, report.Events)
	report.Spent.ConsumerMicros, report.Spent.BenchMicros = report.Spent.BenchMicros, 0
	report.Consume = &Consumption{
		Redis: redis.Kind, Concurrency: consumer.DefaultConcurrency,
		RedisRoundTrips: float64(trips.count.Load()) / float64(report.Events),
		Handle:          PercentilesOf(handled.hist), Redeliveries: done.Duplicates, Failures: done.Failed,
	}
	ids, err := r.effects(ctx, idem.New(rdb, consume.DefaultTTL), report.Consume)
	return report, ids, err
}

// effectsSQL counts, over the events emitted, what consuming left behind.
const effectsSQL = `
SELECT count(*) FILTER (WHERE n.notices >= 1), count(*) FILTER (WHERE n.notices > 1), count(i.event_id)
  FROM outbox_events AS e
  LEFT JOIN (SELECT event_id, count(*) AS notices FROM notifications GROUP BY event_id) AS n ON n.event_id = e.id
  LEFT JOIN inbox_events AS i ON i.event_id = e.id AND i.consumer = $1
 WHERE e.namespace = $2`

// effects compares events, notices, inbox and keys.
func (r *Trial) effects(ctx context.Context, keeper *idem.Keeper, c *Consumption) ([]uuid.UUID, error) {
	err := r.DB.Pool.QueryRow(ctx, effectsSQL, notifications.Consumer, Measured).Scan(&c.Effects, &c.Repeated, &c.Inbox)
	if err != nil {
		return nil, fmt.Errorf("count effects: %w", err)
	}
	const measured = `SELECT id FROM outbox_events WHERE namespace = $1`
	ids, err := outbox.Column[uuid.UUID](ctx, r.DB.Pool, "list events", measured, Measured)
	if err != nil {
		return nil, err
	}
	entries, err := keeper.LookupMany(ctx, []string{notifications.Consumer}, ids)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.State == consume.StateProcessed {
			c.Marks++
		}
	}
	return ids, nil
}

// feed hands out messages from memory. Google's fake gives each stream one message per 10 ms and
// looks at all that it has for it: with it a bench measures the fake.
type feed struct{ messages []broker.Delivery }

// Receive implements broker.Source.
func (f *feed) Receive(ctx context.Context, deliver func(broker.Delivery)) error {
	waiting := make(chan broker.Delivery)
	var handlers sync.WaitGroup
	for range consumer.DefaultConcurrency {
		handlers.Go(func() {
			for d := range waiting {
				deliver(d)
			}
		})
	}
	for _, d := range f.messages {
		waiting <- d
	}
	close(waiting)
	handlers.Wait()
	f.messages = nil
	<-ctx.Done()
	return nil
}

// Permanent implements broker.Source.
func (*feed) Permanent(error) bool { return false }

// About implements broker.Source.
func (*feed) About() broker.About { return broker.About{} }

// acknowledged is a message whose handling the bench counts by its effects.
type acknowledged struct{}

func (acknowledged) Ack()  {}
func (acknowledged) Nack() {}
