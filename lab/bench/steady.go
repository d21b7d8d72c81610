package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// The criteria of pinned-xmin.
const (
	maxPinnedClaim = 3.0 // over the claim before
	// maxLagGrowth is how much slower the last quarter may be than the first, and
	// lagGrain what is too small to be called growth.
	maxLagGrowth = 1.5
	lagGrain     = 5.0 // milliseconds
)

// PinnedXmin is a steady rate while a transaction keeps every dead row.
func PinnedXmin() bench.Mode {
	return bench.Mode{Name: "pinned-xmin", Summary: "steady while an open transaction keeps every dead row", Inside: true, Acks: true,
		Defaults: bench.Sizes{Rate: 800, Duration: time.Minute},
		Measure:  measure(func(ctx context.Context, s *bench.Session) *bench.Report { return pinnedXmin(ctx, s, s.Params) })}
}

// pinnedXmin measures a steady rate first undisturbed and then while a transaction
// with an old snapshot keeps vacuum from removing what each claim leaves behind.
func pinnedXmin(ctx context.Context, s *bench.Session, p bench.Params) *bench.Report {
	calm := max(p.Duration/3, time.Second)
	return with(ctx, s, p, func(r *bench.Trial) *bench.Report {
		before := rig.Must(r.DB.Counters(ctx))
		var free, pinned *bench.Phase
		var base *bench.Cost
		rig.Check(r.Publishing(ctx, func(ctx context.Context) (err error) {
			p.Progress("pinned-xmin: %d events per second for %s, undisturbed", p.Rate, calm)
			free = rig.Must(r.Offer(ctx, calm))
			base, _ = r.Meter.Costs()
			r.Meter.Reset()
			release := pin(ctx, r)
			defer release()
			p.Progress("pinned-xmin: %s more with a transaction held open", p.Duration)
			pinned, err = r.Offer(ctx, p.Duration)
			return err
		}))
		report := r.NewReport()
		report.Events = free.Events() + pinned.Events()
		report.Seconds = pinned.Took.Seconds()
		report.EventsPerSecond = float64(pinned.Events()) / report.Seconds
		report.MemoryBytes = bench.ResidentPeak(os.Getpid())
		latency := pinned.Latency(r.Meter, 0, p.Duration+bench.Patience)
		report.Latency = &latency
		must(report, r.Finish(ctx, report, before))
		undisturbed := free.Latency(r.Meter, min(bench.WarmUp, calm/2), calm+bench.Patience)
		report.Compared = []*bench.Report{{
			Mode: bench.Steady().Name, Events: free.Events(), PayloadBytes: p.PayloadBytes, Publishers: p.Publishers,
			Seconds: free.Took.Seconds(), EventsPerSecond: float64(free.Events()) / free.Took.Seconds(),
			Latency: &undisturbed, Claim: base,
		}}
		if p.Check {
			judgePinned(report, p, base, pinned.Latency(r.Meter, 0, p.Duration/4), pinned.Latency(r.Meter, p.Duration*3/4, p.Duration+bench.Patience))
		}
		return report
	})
}

func judgePinned(r *bench.Report, p bench.Params, base *bench.Cost, first, last bench.Percentiles) {
	r.AtLeast("share of the offered rate", r.EventsPerSecond/float64(p.Rate), bench.MinOffered)
	r.AtMost("claim p50 over undisturbed", r.Claim.Duration.P50/base.Duration.P50, maxPinnedClaim)
	r.AtMost("claim p99 over undisturbed", r.Claim.Duration.P99/base.Duration.P99, maxPinnedClaim)
	r.AtMost("latency p50 of the last quarter over the first, in ms beyond growth", last.P50-maxLagGrowth*first.P50, lagGrain)
}

// pin holds a snapshot until released.
func pin(ctx context.Context, r *bench.Trial) (release func()) {
	conn := rig.Must(pgx.Connect(ctx, r.DB.URL))
	release = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = conn.Close(ctx) // the transaction ends with it
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT FROM outbox_events LIMIT 1`)
	}
	if err != nil {
		release()
		rig.Check(fmt.Errorf("pin xmin: %w", err))
	}
	return release
}

// The criteria of an idle publisher.
const (
	maxIdleQueries = 5.0 // per second
	maxIdleCPU     = 0.01
)

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
