package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/lab/rig"
)

func openPool(ctx context.Context, url string, conns int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(conns)
	return pgxpool.NewWithConfig(ctx, config)
}

// The criteria of the steady modes.
const (
	maxSteadyP50 = 10.0 // milliseconds
	maxSteadyP99 = 50.0
	minOffered   = 0.95 // of the offered rate must come through
)

// beside runs the publishers while steps run, and then until nothing is left.
func (t *Trial) beside(ctx context.Context, steps func()) {
	t.start()
	for _, p := range t.publishers {
		p.ready(ctx)
	}
	steps()
	t.await(ctx)
	t.ended.metrics.add(t.metrics(ctx))
	t.stop(ctx)
}

func steady(ctx context.Context, s *Session, p Params) *Report {
	return s.trial(ctx, p, func(t *Trial) *Report {
		before := t.counters(ctx)
		p.say("steady: %d events per second for %s", p.Rate, p.Duration)
		var ph *phase
		t.beside(ctx, func() { ph = t.offer(ctx, p.Duration) })
		report := t.report()
		report.Took(ph.took)
		latency := ph.latency(t.seen, min(warmUp, p.Duration/2), p.Duration+patience)
		report.Latency = &latency
		if p.Check {
			report.AtLeast("share of the offered rate", report.EventsPerSecond/float64(p.Rate), minOffered)
			report.AtMost("commit to acknowledgement p50 in ms", latency.P50, maxSteadyP50)
			report.AtMost("commit to acknowledgement p99 in ms", latency.P99, maxSteadyP99)
		}
		t.finish(ctx, report, before)
		return report
	})
}

// The criteria of pinned-xmin.
const (
	maxPinnedClaim = 3.0 // over the claim before
	// maxLagGrowth is how much slower the last quarter may be than the first, and lagGrain what is
	// too small to be called growth.
	maxLagGrowth = 1.5
	lagGrain     = 5.0 // milliseconds
)

const claimMetric = "outbox_claim_duration_seconds"

// pinnedXmin measures a steady rate first undisturbed and then while a transaction with an old
// snapshot keeps vacuum from removing what each claim leaves behind.
func pinnedXmin(ctx context.Context, s *Session, p Params) *Report {
	calm := max(p.Duration/3, time.Second)
	return s.trial(ctx, p, func(t *Trial) *Report {
		before := t.counters(ctx)
		var free, pinned *phase
		var start, middle, end metrics
		t.beside(ctx, func() {
			start = t.metrics(ctx)
			p.say("pinned-xmin: %d events per second for %s, undisturbed", p.Rate, calm)
			free = t.offer(ctx, calm)
			middle = t.metrics(ctx)
			defer pin(ctx, t)()
			p.say("pinned-xmin: %s more with a transaction held open", p.Duration)
			pinned = t.offer(ctx, p.Duration)
			end = t.metrics(ctx)
		})
		report := t.report()
		report.Seconds, report.EventsPerSecond = pinned.took.Seconds(), pinned.perSecond()
		latency := pinned.latency(t.seen, 0, p.Duration+patience)
		report.Latency = &latency
		report.Claim = end.since(middle).cost(claimMetric, len(pinned.committed))
		undisturbed := free.latency(t.seen, min(warmUp, calm/2), calm+patience)
		base := &Report{Mode: "steady", Events: len(free.committed), PayloadBytes: p.PayloadBytes, Publishers: p.Publishers,
			Seconds: free.took.Seconds(), EventsPerSecond: free.perSecond(), Latency: &undisturbed,
			Claim: middle.since(start).cost(claimMetric, len(free.committed))}
		report.Compared = []*Report{base}
		if p.Check {
			first, last := pinned.latency(t.seen, 0, p.Duration/4), pinned.latency(t.seen, p.Duration*3/4, p.Duration+patience)
			report.AtLeast("share of the offered rate", report.EventsPerSecond/float64(p.Rate), minOffered)
			report.AtMost("claim p50 over undisturbed", report.Claim.Duration.P50/base.Claim.Duration.P50, maxPinnedClaim)
			report.AtMost("claim p99 over undisturbed", report.Claim.Duration.P99/base.Claim.Duration.P99, maxPinnedClaim)
			report.AtMost("latency p50 of the last quarter over the first, in ms beyond growth", last.P50-maxLagGrowth*first.P50, lagGrain)
		}
		t.finish(ctx, report, before)
		return report
	})
}

// pin holds a snapshot until released.
func pin(ctx context.Context, t *Trial) (release func()) {
	conn := rig.Must(pgx.Connect(ctx, t.url))
	tx := rig.Must(conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))
	rig.Must(tx.Exec(ctx, `SELECT FROM outbox_events LIMIT 1`))
	return func() { _ = conn.Close(context.WithoutCancel(ctx)) } // the transaction ends with it
}

// The criteria of an idle publisher.
const (
	maxIdleQueries = 5.0 // per second
	maxIdleCPU     = 0.01
)

// idle measures what a publisher costs that has nothing to do: round trips, so on a server of its own.
func idle(ctx context.Context, s *Session, p Params) *Report {
	return s.trial(ctx, p, func(t *Trial) *Report {
		report := t.report()
		t.start()
		for _, one := range t.publishers {
			one.ready(ctx)
		}
		rig.Pause(ctx, 2*time.Second) // what follows a start is not idleness yet
		p.say("idle: %s of nothing", p.Duration)
		used := func() (total time.Duration) {
			for _, one := range t.publishers {
				total += processTime(one.PID())
			}
			return total
		}
		before, spent, began := t.counters(ctx), used(), time.Now()
		if !rig.Pause(ctx, p.Duration) {
			rig.Check(ctx.Err())
		}
		after := t.counters(ctx)
		spent, report.Seconds = used()-spent, time.Since(began).Seconds()
		// What the server counts it counts late.
		report.QueriesPerSecond = float64(after.roundTrips-before.roundTrips) / report.Seconds
		t.stop(ctx)
		report.CPUShare, report.MemoryBytes = spent.Seconds()/report.Seconds, t.ended.memory
		if p.Check {
			report.AtMost("queries per second", report.QueriesPerSecond, maxIdleQueries)
			report.AtMost("share of one processor", report.CPUShare, maxIdleCPU)
		}
		t.verify(ctx, report)
		return report
	})
}
