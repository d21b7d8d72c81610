package bench

import (
	"context"
	"os"
	"time"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// The criteria of an idle publisher.
const (
	maxIdleQueries = 5.0 // per second
	maxIdleCPU     = 0.01
)

// Idle measures a publisher that has nothing to do.
func Idle() bench.Mode {
	return bench.Mode{Name: "idle", Summary: "what a publisher with nothing to do costs", Inside: true, Measure: idle}
}

// idle measures what a publisher costs that has nothing to do. The broker fake and
// the bench idle in the same process and are counted with it.
func idle(ctx context.Context, s *bench.Session) (*bench.Report, error) {
	p := s.Params
	return s.With(ctx, p, func(r *bench.Trial) (*bench.Report, error) {
		report := r.NewReport()
		report.Events = 0
		var before bench.Counters
		var cpu time.Duration
		err := r.Publishing(ctx, func(ctx context.Context) error {
			// What follows a start is not idleness yet.
			p.Progress("idle: settling down, then %s of nothing", p.Duration)
			if err := wait.For(ctx, 2*time.Second); err != nil {
				return err
			}
			var err error
			if before, err = r.DB.Counters(ctx); err != nil {
				return err
			}
			spent, began := bench.CPUTime(), time.Now()
			if err := wait.For(ctx, p.Duration); err != nil {
				return err
			}
			cpu = bench.CPUTime() - spent
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
		after, err := r.DB.Counters(ctx)
		if err != nil {
			return nil, err
		}
		report.QueriesPerSecond = float64(after.Transactions-before.Transactions) / report.Seconds
		report.CPUShare = cpu.Seconds() / report.Seconds
		report.MemoryBytes = bench.ResidentPeak(os.Getpid())
		if report.Delivery, err = r.Verify(ctx); err != nil {
			return nil, err
		}
		if p.Check {
			report.AtMost("queries per second", report.QueriesPerSecond, maxIdleQueries)
			report.AtMost("share of one processor", report.CPUShare, maxIdleCPU)
		}
		return report, nil
	})
}
