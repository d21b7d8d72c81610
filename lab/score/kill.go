package score

import (
	"context"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// killedPublisher is R6.
func (s *Session) killedPublisher(ctx context.Context) result {
	const lease = 5 * time.Second
	return s.in(ctx, surroundings{}, func(w *world) result {
		// Slow enough for each publisher to have something in flight.
		w.Broker.Slow(300 * time.Millisecond)
		all := w.publishers(ctx, 3, "--lease", lease.String(), "--publish-timeout", "2s",
			"--backoff-base", "100ms")
		owner := owner(ctx, all[0])
		emitMany(ctx, w.pool, s.size(20_000, 20_000), 0)
		const held = `SELECT count(*) FROM outbox_event_status WHERE locked_by = $1::text::uuid`
		rig.Await(ctx, 30*time.Second, "rows in flight",
			func() bool { return w.count(ctx, held, owner) > 0 })
		all[0].End(ctx, syscall.SIGKILL)
		died := time.Now()
		// What its last statement did is committed within moments.
		rig.Pause(ctx, 100*time.Millisecond)
		rig.Must(w.pool.Exec(ctx, `CREATE TABLE score_held AS SELECT id FROM outbox_event_status WHERE locked_by = $1::text::uuid`, owner))
		inFlight := w.count(ctx, `SELECT count(*) FROM score_held`)
		w.Broker.Slow(0)
		rig.Await(ctx, time.Minute, "the dead one's rows", func() bool {
			return w.count(ctx, `SELECT count(*) FROM outbox_events JOIN score_held USING (id) WHERE published_at IS NULL`) == 0
		})
		took := time.Since(died)
		w.settled(ctx, time.Minute)
		t := w.tally(ctx)
		return judge(t.lost == 0 && t.unknown == 0 && t.duplicates <= inFlight, took <= lease+2*time.Second,
			"%d events: its %d rows out after %s with a lease of %s; %d lost, %d duplicates", t.events, inFlight, round(took), lease, t.lost, t.duplicates)
	})
}

// terms is R19.
func (s *Session) terms(ctx context.Context) result {
	return s.in(ctx, surroundings{}, func(w *world) result {
		var longest time.Duration
		rounds, leases := s.size(20, 100), 0
		for range rounds {
			w.Broker.Slow(3 * time.Second)
			w.Broker.Drain()
			p := w.publishers(ctx, 1)[0]
			emitMany(ctx, w.pool, 500, 0)
			w.Broker.AwaitRequest(ctx)
			rig.Pause(ctx, time.Duration(w.random.IntN(200))*time.Millisecond)
			began := time.Now()
			p.End(ctx, syscall.SIGTERM)
			longest = max(longest, time.Since(began))
			leases += w.count(ctx, `SELECT count(*) FROM outbox_event_status WHERE locked_by IS NOT NULL`)
		}
		w.Broker.Slow(0)
		w.publish("last")
		w.settled(ctx, time.Minute)
		t := w.tally(ctx)
		return judge(t.exact(), leases == 0 && longest <= 20*time.Second, "%d signals, broker taking 3 s: longest end %s, %d leases left, %d lost, %d duplicates of %d events",
			rounds, round(longest), leases, t.lost, t.duplicates, t.events)
	})
}
