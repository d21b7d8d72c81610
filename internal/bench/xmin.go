package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// The criteria of pinned-xmin.
const (
	maxPinnedClaim = 3.0 // over the claim before
	// maxLagGrowth is how much slower the last quarter may be than the first, and
	// lagGrain what is too small to be called growth.
	maxLagGrowth = 1.5
	lagGrain     = 5.0 // milliseconds
)

// pinnedXmin measures a steady rate first undisturbed and then while a transaction
// with an old snapshot keeps vacuum from removing what each claim leaves behind.
func (s *session) pinnedXmin(ctx context.Context, p Params) (*Report, error) {
	calm := max(p.Duration/3, time.Second)
	return s.with(ctx, p, func(r *run) (*Report, error) {
		before, err := r.db.counters(ctx)
		if err != nil {
			return nil, err
		}
		var free, pinned *phase
		var base *Cost
		err = r.publishing(ctx, func(ctx context.Context) (err error) {
			p.Progress("pinned-xmin: %d events per second for %s, undisturbed", p.Rate, calm)
			if free, err = r.offerPhase(ctx, calm); err != nil {
				return err
			}
			base, _ = r.meter.costs()
			r.meter.reset()
			release, err := r.pin(ctx)
			if err != nil {
				return err
			}
			p.Progress("pinned-xmin: %s more with a transaction held open", p.Duration)
			pinned, err = r.offerPhase(ctx, p.Duration)
			release()
			return err
		})
		if err != nil {
			return nil, err
		}
		report := r.newReport()
		report.Events = len(free.commits.at) + len(pinned.commits.at)
		report.Seconds = pinned.took.Seconds()
		report.EventsPerSecond = float64(len(pinned.commits.at)) / report.Seconds
		report.MemoryBytes = residentPeak(os.Getpid())
		latency := pinned.latency(r.meter, 0, p.Duration+drainPatience)
		report.Latency = &latency
		if err := r.finish(ctx, report, before); err != nil {
			return report, err
		}
		undisturbed := free.latency(r.meter, min(warmUp, calm/2), calm+drainPatience)
		report.Compared = []*Report{{
			Mode: ModeSteady, Events: len(free.commits.at), PayloadBytes: p.PayloadBytes, Publishers: p.Publishers,
			Seconds: free.took.Seconds(), EventsPerSecond: float64(len(free.commits.at)) / free.took.Seconds(),
			Latency: &undisturbed, Claim: base, Server: s.server.version,
		}}
		if p.Check {
			report.judgePinned(p, base, pinned.latency(r.meter, 0, p.Duration/4), pinned.latency(r.meter, p.Duration*3/4, p.Duration+drainPatience))
		}
		return report, nil
	})
}

func (r *Report) judgePinned(p Params, base *Cost, first, last Percentiles) {
	r.atLeast("share of the offered rate", r.EventsPerSecond/float64(p.Rate), minOffered)
	r.atMost("claim p50 over undisturbed", r.Claim.Duration.P50/base.Duration.P50, maxPinnedClaim)
	r.atMost("claim p99 over undisturbed", r.Claim.Duration.P99/base.Duration.P99, maxPinnedClaim)
	r.atMost("latency p50 of the last quarter over the first, in ms beyond growth", last.P50-maxLagGrowth*first.P50, lagGrain)
}

// pin holds a snapshot until released.
func (r *run) pin(ctx context.Context) (release func(), err error) {
	conn, err := pgx.Connect(ctx, r.db.url)
	if err != nil {
		return nil, fmt.Errorf("pin xmin: %w", err)
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT FROM outbox_events LIMIT 1`)
	}
	end := func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		_ = conn.Close(ctx) // the transaction ends with it
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("pin xmin: %w", err)
	}
	return end, nil
}
