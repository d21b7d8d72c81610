package score

import (
	"context"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// restarts is R8.
func (s *Session) restarts(ctx context.Context) result {
	return s.in(ctx, surroundings{}, func(w *world) result {
		all := w.publishers(ctx, 3, "--lease", "8s", "--publish-timeout", "4s")
		load, stop := context.WithCancel(ctx)
		defer stop()
		var producing sync.WaitGroup
		producing.Go(func() { w.insist(load) })
		var took []time.Duration
		for range s.size(20, 20) {
			rig.Pause(ctx, time.Second)
			rig.Check(w.Postgres.Restart(ctx))
			accepts := time.Now()
			w.pool.Reset()
			ids := emitMany(ctx, w.pool, 1, 0)
			var at time.Time
			rig.Await(ctx, time.Minute, "an event after a restart", func() (ok bool) {
				at, ok = w.ledger.firstAt(ids[0])
				return ok
			})
			took = append(took, at.Sub(accepts))
		}
		stop()
		producing.Wait()
		exited := 0
		for _, p := range all {
			if !p.Alive() {
				exited++
			}
		}
		w.settled(ctx, time.Minute)
		t := w.tally(ctx)
		again := spreadOf(took)
		return judge(t.lost == 0 && t.unknown == 0 && exited == 0, again.max <= 3*time.Second,
			"%d restarts: publishing again after at most %s (median %s); %d processes exited; %d of %d events lost, %d duplicates",
			again.n, round(again.max), round(again.p50), exited, t.lost, t.events, t.duplicates)
	})
}

// insist emits, whatever becomes of its connection.
func (w *world) insist(ctx context.Context) {
	for rig.Pause(ctx, 10*time.Millisecond) {
		_ = rig.Carry(func() { emitMany(ctx, w.pool, 1, 0) }) // the database may be away
	}
}

// lateCommits is R11. Without the hint, so that the poll is what brings them.
func (s *Session) lateCommits(ctx context.Context) result {
	const poll, hold = 500 * time.Millisecond, 5 * time.Second
	return s.in(ctx, surroundings{}, func(w *world) result {
		w.publishers(ctx, 2, "--wake", "off", "--poll-interval", poll.String())
		events := w.offer(ctx, offer{rate: 100, lasts: s.lasts(40*time.Second, 3*time.Minute),
			lateShare: 0.05, hold: hold})
		w.settled(ctx, time.Minute)
		t := w.tally(ctx)
		late := w.waits(events, func(c committed) bool { return c.late })
		return judge(t.exact(), late.max <= poll+250*time.Millisecond, "%d of %d transactions late, poll %s: published p99 %s, longest %s after commit; %d lost, %d duplicates",
			late.n, t.events, poll, round(late.p99), round(late.max), t.lost, t.duplicates)
	})
}
