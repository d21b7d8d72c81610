package score

import (
	"context"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
			var first arrival
			rig.Await(ctx, time.Minute, "an event after a restart", func() (ok bool) {
				first, ok = w.ledger.of(ids[0])
				return ok
			})
			took = append(took, first.at.Sub(accepts))
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

// poison is R14.
func (s *Session) poison(ctx context.Context) result {
	var clean spread
	load := offer{rate: 200, lasts: s.lasts(20*time.Second, 3*time.Minute)}
	run := func(load offer) result {
		return s.in(ctx, surroundings{}, func(w *world) result {
			w.publishers(ctx, 1)
			// The first events meet cold caches.
			emitMany(ctx, w.pool, 500, 0)
			w.settled(ctx, time.Minute)
			events := w.offer(ctx, load)
			w.settled(ctx, time.Minute)
			others := w.waits(events, func(c committed) bool { return !c.poison })
			if load.poisonShare == 0 {
				clean = others
				return result{}
			}
			return w.judgePoison(ctx, events, clean, others)
		})
	}
	run(load)
	load.poisonShare = 0.01
	return run(load)
}

func (w *world) judgePoison(ctx context.Context, events []committed, clean, others spread) result {
	wrong, poisoned := 0, 0
	for _, c := range events {
		letters := w.count(ctx, `SELECT count(*) FROM outbox_dlq WHERE event_id = $1::text::uuid AND state = 'open' AND error_reason = 'rejected_by_broker'`, c.id)
		if c.poison {
			poisoned++
		}
		if c.poison != (letters == 1) {
			wrong++
		}
	}
	t := w.tally(ctx)
	return judge(wrong == 0 && t.exact(), others.p99-clean.p99 <= 250*time.Millisecond,
		"%d of %d events poisoned: %d dead letters, %d wrong; the others' p99 %s, without poison %s; %d lost, %d duplicates",
		poisoned, t.events, t.dead, wrong, round(others.p99), round(clean.p99), t.lost, t.duplicates)
}

// outage is R15.
func (s *Session) outage(ctx context.Context) result {
	const rate = 400
	away := s.lasts(time.Minute, 10*time.Minute)
	// A shorter outage starts with what has piled up in a longer one: how long it takes to notice that
	// the broker is back would otherwise be most of the time to drain.
	piled := s.size(200_000, 0)
	var ideal time.Duration
	s.in(ctx, surroundings{}, func(w *world) result {
		w.fill(ctx, piled+int(away.Seconds())*rate, nil)
		w.publish("publisher")
		w.Broker.AwaitRequest(ctx)
		began := time.Now()
		w.settled(ctx, 5*time.Minute)
		ideal = time.Since(began)
		return result{}
	})
	return s.in(ctx, surroundings{}, func(w *world) result {
		w.publishers(ctx, 1)
		emitMany(ctx, w.pool, 100, 0)
		w.settled(ctx, time.Minute)
		w.Broker.OnCall(func(context.Context, string) error { return status.Error(codes.Unavailable, "away") })
		before := calls(w.Broker.Calls())
		w.fill(ctx, piled, nil)
		began := time.Now()
		w.offer(ctx, offer{rate: rate, lasts: away})
		lasted := time.Since(began)
		requests := float64(calls(w.Broker.Calls())-before) / lasted.Seconds()
		back := time.Now()
		w.Broker.OnCall(nil)
		w.settled(ctx, 10*time.Minute)
		drained := time.Since(back)
		letters := w.count(ctx, `SELECT count(*) FROM outbox_dlq`)
		t := w.tally(ctx)
		return judge(t.exact() && letters == 0, requests <= 5 && drained <= 2*ideal,
			"%s at %d events/s: %d dead letters, %.1f requests/s, %d events drained in %s, ideal %s; %d lost, %d duplicates",
			away, rate, letters, requests, t.events, round(drained), round(ideal), t.lost, t.duplicates)
	})
}

func calls(by map[string]int) (n int) {
	for _, of := range by {
		n += of
	}
	return n
}

// fill writes rows like an event, with SQL expressions for further columns.
func (w *world) fill(ctx context.Context, rows int, columns map[string]string) {
	rig.Fill(ctx, w.pool, rows, newEvent(false), columns, w.session.say)
}
