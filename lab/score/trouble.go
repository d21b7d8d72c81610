package score

import (
	"cmp"
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
		w.fill(ctx, filling{rows: piled + int(away.Seconds())*rate})
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
		w.fill(ctx, filling{rows: piled})
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

// filling is rows that are written without a round trip each.
type filling struct {
	rows int
	// published and key are SQL expressions; n is the row's number. The default is NULL.
	published, key string
	// padding is a text in the payload.
	padding string
}

func (w *world) fill(ctx context.Context, f filling) {
	for done := 0; done < f.rows; {
		size := min(50_000, f.rows-done)
		rig.Must(w.pool.Exec(ctx, `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at, ordering_key)
SELECT id, 'license_status_changed', 'license', id, jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', '2026-01-01T00:00:00Z', 'data',
       jsonb_strip_nulls(jsonb_build_object('licenseId', id, 'storeId', id, 'status', 'verified', 'reason', nullif($2::text, '')))), `+cmp.Or(f.published, "NULL")+`, 'default/' || `+cmp.Or(f.key, "NULL")+`
  FROM (SELECT n, outbox_uuid_v7() AS id FROM generate_series($3::int, $3::int + $1::int - 1) AS n) AS ids
 ORDER BY n`, size, f.padding, done))
		done += size
	}
}
