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
	"github.com/outboxctl/outboxctl/internal/wait"
)

// The criteria of the steady modes.
const (
	maxSteadyP50 = 10.0 // milliseconds
	maxSteadyP99 = 50.0
	// MinOffered is how much of the offered rate must come through.
	MinOffered = 0.95
)

const (
	// steadyWriters commit side by side, each event in a transaction of its own.
	steadyWriters = 8
	// WarmUp is left out of the percentiles: the first events meet cold caches.
	WarmUp = time.Second
	// Patience bounds the wait for the last events.
	Patience = 60 * time.Second
)

// Phase is one stretch of a steady run, with its own figures.
type Phase struct {
	mu sync.Mutex
	// committed is when each event's transaction was known to be committed.
	committed map[uuid.UUID]time.Time
	began     time.Time
	Took      time.Duration
}

// Offer is one stretch at the offered rate: it commits events for a while.
func (r *Trial) Offer(ctx context.Context, lasts time.Duration) (*Phase, error) {
	n := int(float64(r.Params.Rate) * lasts.Seconds())
	p := &Phase{began: time.Now(), committed: make(map[uuid.UUID]time.Time, n)}
	pool, err := r.DB.Open(ctx, "outboxctl bench emit", steadyWriters)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	limiter := rate.NewLimiter(rate.Limit(r.Params.Rate), 1)
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
				e := event(r.Params.PayloadBytes)
				if perWriter := r.Params.Keys / steadyWriters; perWriter > 0 {
					// Keys of its own: transactions that overlap have no order.
					e.OrderingKey = fmt.Sprint("key/", writer, "/", rand.IntN(perWriter))
				}
				if err := p.commit(ctx, pool, emitter, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		return nil, fmt.Errorf("emit at a steady rate: %w", err)
	}
	p.Took = time.Since(p.began)
	return p, nil
}

func (p *Phase) commit(ctx context.Context, pool *pgxpool.Pool, emitter *emit.Emitter,
	e emit.Event) error {
	var result emit.Result
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		result, err = emitter.Emit(ctx, tx, e)
		return err
	})
	now := time.Now()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed[result.ID] = now
	return nil
}

// Events is how many were committed.
func (p *Phase) Events() int { return len(p.committed) }

// Latency of the events committed in [from, to) of the phase. An acknowledgement
// can be seen before the reply of COMMIT is; that counts as none.
func (p *Phase) Latency(m *Meter, from, to time.Duration) Percentiles {
	h := NewHistogram()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, at := range p.committed {
		if since := at.Sub(p.began); since < from || since >= to {
			continue
		}
		if ack, ok := m.acks[id]; ok {
			Record(h, max(ack.Sub(at), 0))
		}
	}
	return PercentilesOf(h)
}

// Publishing runs f beside the publishers, then lets them finish what is left.
func (r *Trial) Publishing(ctx context.Context, f func(context.Context) error) (err error) {
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
	for range r.Params.Publishers {
		p, err := r.newPublisher(ctx, r.To(), false)
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
func (r *Trial) awaitEmpty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		var left bool
		err := r.DB.Pool.QueryRow(ctx,
			`SELECT EXISTS (SELECT FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL AND namespace = $1)`, Measured).Scan(&left)
		if err != nil {
			return fmt.Errorf("wait for the last events: %w", err)
		}
		if !left {
			return nil
		}
		if err := wait.For(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the last events: %w", err)
		}
	}
}

func steady(ctx context.Context, s *Session) (*Report, error) {
	p := s.Params
	return s.With(ctx, p, func(r *Trial) (*Report, error) {
		before, err := r.DB.Counters(ctx)
		if err != nil {
			return nil, err
		}
		p.Progress("steady: %d events per second for %s", p.Rate, p.Duration)
		var ph *Phase
		err = r.Publishing(ctx, func(ctx context.Context) (err error) {
			ph, err = r.Offer(ctx, p.Duration)
			return err
		})
		if err != nil {
			return nil, err
		}
		report := r.NewReport()
		report.Events = ph.Events()
		report.Took(ph.Took)
		report.MemoryBytes = ResidentPeak(os.Getpid())
		latency := ph.Latency(r.Meter, min(WarmUp, p.Duration/2), p.Duration+Patience)
		report.Latency = &latency
		if p.Check {
			report.AtLeast("share of the offered rate", report.EventsPerSecond/float64(p.Rate), MinOffered)
			report.AtMost("commit to acknowledgement p50 in ms", latency.P50, maxSteadyP50)
			report.AtMost("commit to acknowledgement p99 in ms", latency.P99, maxSteadyP99)
		}
		return report, r.Finish(ctx, report, before)
	})
}
