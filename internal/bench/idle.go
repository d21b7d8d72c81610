package bench

import (
	"context"
	"os"
	"time"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// The criteria of an idle publisher.
const (
	maxIdleQueries = 5.0 // per second
	maxIdleCPU     = 0.01
)

// idle measures what a publisher costs that has nothing to do. The broker fake and
// the bench idle in the same process and are counted with it.
func (s *session) idle(ctx context.Context) (*Report, error) {
	p := s.params
	return s.with(ctx, p, func(r *run) (*Report, error) {
		report := r.newReport()
		report.Events = 0
		var before counters
		var cpu time.Duration
		err := r.publishing(ctx, func(ctx context.Context) error {
			// What follows a start is not idleness yet.
			p.Progress("idle: settling down, then %s of nothing", p.Duration)
			if err := wait.For(ctx, 2*time.Second); err != nil {
				return err
			}
			var err error
			if before, err = r.db.counters(ctx); err != nil {
				return err
			}
			spent, began := cpuTime(), time.Now()
			if err := wait.For(ctx, p.Duration); err != nil {
				return err
			}
			cpu = cpuTime() - spent
			report.Seconds = time.Since(began).Seconds()
			return nil
		})
		if err != nil {
			return nil, err
		}
		// Backends report what they did when they end.
		if err := wait.For(ctx, 500*time.Millisecond); err != nil {
			return nil, err
		}
		after, err := r.db.counters(ctx)
		if err != nil {
			return nil, err
		}
		report.QueriesPerSecond = float64(after.transactions-before.transactions) / report.Seconds
		report.CPUShare = cpu.Seconds() / report.Seconds
		report.MemoryBytes = residentPeak(os.Getpid())
		if report.Delivery, err = r.recorder.verify(ctx, r.db); err != nil {
			return nil, err
		}
		if p.Check {
			report.atMost("queries per second", report.QueriesPerSecond, maxIdleQueries)
			report.atMost("share of one processor", report.CPUShare, maxIdleCPU)
		}
		return report, nil
	})
}
