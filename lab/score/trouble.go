package score

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/lab/rig"
)

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
