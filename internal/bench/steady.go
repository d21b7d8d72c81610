package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/emit"
)

// The criteria of the steady modes.
const (
	maxSteadyP50 = 10.0 // milliseconds
	maxSteadyP99 = 50.0
	// minOffered is how much of the offered rate must come through.
	minOffered = 0.95
)

const (
	// steadyWriters commit side by side, each event in a transaction of its own.
	steadyWriters = 8
	// warmUp is left out of the percentiles: the first events meet cold caches.
	warmUp = time.Second
	// drainPatience bounds the wait for the last events.
	drainPatience = 60 * time.Second
)

// commits remembers when each event's transaction was known to be committed.
type commits struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time
}

// offer commits events at a steady rate for a while.
func (r *run) offer(ctx context.Context, lasts time.Duration) (*commits, error) {
	pool, err := r.db.open(ctx, "outboxctl bench emit", steadyWriters)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	n := int(float64(r.params.Rate) * lasts.Seconds())
	c := &commits{at: make(map[uuid.UUID]time.Time, n)}
	limiter := rate.NewLimiter(rate.Limit(r.params.Rate), 1)
	emitter := emit.New(r.registry)
	turns := make(chan struct{})
	writers, ctx := errgroup.WithContext(ctx)
	writers.Go(func() error {
		defer close(turns)
		for range n {
			if err := limiter.Wait(ctx); err != nil {
				return err
			}
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for writer := range steadyWriters {
		writers.Go(func() error {
			for range turns {
				e := event(r.params.PayloadBytes)
				if perWriter := r.params.Keys / steadyWriters; perWriter > 0 {
					// Keys of its own: transactions that overlap have no order.
					e.OrderingKey = fmt.Sprint("key/", writer, "/", rand.IntN(perWriter))
				}
				if err := c.commit(ctx, pool, emitter, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		return nil, fmt.Errorf("emit at a steady rate: %w", err)
	}
	return c, nil
}

func (c *commits) commit(ctx context.Context, pool *pgxpool.Pool, emitter *emit.Emitter, e emit.Event) error {
	var result emit.Result
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		result, err = emitter.Emit(ctx, tx, e)
		return err
	})
	now := time.Now()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[result.ID] = now
	return nil
}

// phase is one stretch of a steady run, with its own figures.
type phase struct {
	commits *commits
	began   time.Time
	took    time.Duration
}

// latency of the events committed in [from, to) of the phase. An acknowledgement
// can be seen before the reply of COMMIT is; that counts as none.
func (p *phase) latency(m *meter, from, to time.Duration) Percentiles {
	h := newHistogram()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, at := range p.commits.at {
		if since := at.Sub(p.began); since < from || since >= to {
			continue
		}
		if ack, ok := m.acks[id]; ok {
			record(h, max(ack.Sub(at), 0))
		}
	}
	return percentiles(h)
}

// publishing runs f beside the publishers, then lets them finish what is left.
func (r *run) publishing(ctx context.Context, f func(context.Context) error) (err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	var publishers []*publisher
	defer func() {
		stop()
		err = errors.Join(err, group.Wait())
		for _, p := range publishers {
			p.close()
		}
	}()
	for range r.params.Publishers {
		p, err := r.newPublisher(ctx, r.publisherTo(), false)
		if err != nil {
			return err
		}
		publishers = append(publishers, p)
		group.Go(func() error { return p.run(running) })
	}
	if err := f(ctx); err != nil {
		return err
	}
	return r.awaitEmpty(ctx)
}

// awaitEmpty waits until nothing measured is unpublished.
func (r *run) awaitEmpty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	for {
		var left bool
		err := r.db.pool.QueryRow(ctx,
			`SELECT EXISTS (SELECT FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL AND namespace = $1)`, measured).Scan(&left)
		if err != nil {
			return fmt.Errorf("wait for the last events: %w", err)
		}
		if !left {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the last events: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// offerPhase is one stretch at the offered rate.
func (r *run) offerPhase(ctx context.Context, lasts time.Duration) (*phase, error) {
	p := &phase{began: time.Now()}
	var err error
	p.commits, err = r.offer(ctx, lasts)
	p.took = time.Since(p.began)
	return p, err
}

func (s *session) steady(ctx context.Context) (*Report, error) {
	p := s.params
	return s.with(ctx, p, func(r *run) (*Report, error) {
		before, err := r.db.counters(ctx)
		if err != nil {
			return nil, err
		}
		p.Progress("steady: %d events per second for %s", p.Rate, p.Duration)
		var ph *phase
		err = r.publishing(ctx, func(ctx context.Context) (err error) {
			ph, err = r.offerPhase(ctx, p.Duration)
			return err
		})
		if err != nil {
			return nil, err
		}
		report := r.newReport()
		report.Events = len(ph.commits.at)
		report.took(ph.took)
		report.MemoryBytes = residentPeak(os.Getpid())
		latency := ph.latency(r.meter, min(warmUp, p.Duration/2), p.Duration+drainPatience)
		report.Latency = &latency
		if p.Check {
			report.atLeast("share of the offered rate", report.EventsPerSecond/float64(p.Rate), minOffered)
			report.atMost("commit to acknowledgement p50 in ms", latency.P50, maxSteadyP50)
			report.atMost("commit to acknowledgement p99 in ms", latency.P99, maxSteadyP99)
		}
		return report, r.finish(ctx, report, before)
	})
}
