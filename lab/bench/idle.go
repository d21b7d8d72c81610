package bench

import (
	"context"
	"os"
	"time"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// The criteria of an idle publisher.
const (
	maxIdleQueries = 5.0 // per second
	maxIdleCPU     = 0.01
)

// Idle measures a publisher that has nothing to do.
func Idle() bench.Mode {
	return bench.Mode{Name: "idle", Summary: "what a publisher with nothing to do costs", Inside: true, Measure: measure(idle)}
}

// idle measures what a publisher costs that has nothing to do. The broker fake and
// the bench idle in the same process and are counted with it.
func idle(ctx context.Context, s *bench.Session) *bench.Report {
	p := s.Params
	return with(ctx, s, p, func(r *bench.Trial) *bench.Report {
		report := r.NewReport()
		report.Events = 0
		var before bench.Counters
		var cpu time.Duration
		rig.Check(r.Publishing(ctx, func(ctx context.Context) error {
			// What follows a start is not idleness yet.
			p.Progress("idle: settling down, then %s of nothing", p.Duration)
			rig.Pause(ctx, 2*time.Second)
			before = rig.Must(r.DB.Counters(ctx))
			spent, began := bench.CPUTime(), time.Now()
			rig.Pause(ctx, p.Duration)
			cpu = bench.CPUTime() - spent
			report.Seconds = time.Since(began).Seconds()
			return ctx.Err()
		}))
		rig.Pause(ctx, 500*time.Millisecond) // backends report what they did when they end
		after := rig.Must(r.DB.Counters(ctx))
		report.QueriesPerSecond = float64(after.Transactions-before.Transactions) / report.Seconds
		report.CPUShare = cpu.Seconds() / report.Seconds
		report.MemoryBytes = bench.ResidentPeak(os.Getpid())
		report.Delivery = rig.Must(r.Verify(ctx))
		if p.Check {
			report.AtMost("queries per second", report.QueriesPerSecond, maxIdleQueries)
			report.AtMost("share of one processor", report.CPUShare, maxIdleCPU)
		}
		return report
	})
}
