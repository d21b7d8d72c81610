package score

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// poison is R14.
func (s *Session) poison(ctx context.Context) (result, error) {
	var clean spread
	load := offer{rate: 200, lasts: s.lasts(20*time.Second, 3*time.Minute)}
	run := func(load offer) (result, error) {
		return s.in(ctx, surroundings{}, func(w *world) (result, error) {
			all, err := w.publishers(1)
			if err != nil {
				return result{}, err
			}
			if err := ready(ctx, all...); err != nil {
				return result{}, err
			}
			// The first events meet cold caches.
			if _, err := emitMany(ctx, w.pool, 500, 0); err != nil {
				return result{}, err
			}
			if err := w.settled(ctx, time.Minute); err != nil {
				return result{}, err
			}
			events, err := w.offer(ctx, load)
			if err != nil {
				return result{}, err
			}
			if err := w.settled(ctx, time.Minute); err != nil {
				return result{}, err
			}
			others := w.waits(events, func(c committed) bool { return !c.poison })
			if load.poisonShare == 0 {
				clean = others
				return result{}, nil
			}
			return w.judgePoison(ctx, events, clean, others)
		})
	}
	if _, err := run(load); err != nil {
		return result{}, err
	}
	load.poisonShare = 0.01
	return run(load)
}

func (w *world) judgePoison(ctx context.Context, events []committed, clean, others spread) (result, error) {
	wrong, poisoned := 0, 0
	for _, c := range events {
		var letters int
		letters, err := w.count(ctx, `SELECT count(*) FROM outbox_dlq WHERE event_id = $1::text::uuid AND state = 'open' AND error_reason = 'rejected_by_broker'`, c.id)
		if err != nil {
			return result{}, err
		}
		if c.poison {
			poisoned++
		}
		if c.poison != (letters == 1) {
			wrong++
		}
	}
	t, err := w.tally(ctx)
	if err != nil {
		return result{}, err
	}
	return judge(wrong == 0 && t.exact(), others.p99-clean.p99 <= 250*time.Millisecond,
		"%d of %d events poisoned: %d dead letters, %d wrong; the others' p99 %s, without poison %s; %d lost, %d duplicates",
		poisoned, t.events, t.dead, wrong, round(others.p99), round(clean.p99), t.lost, t.duplicates), nil
}

// outage is R15.
func (s *Session) outage(ctx context.Context) (result, error) {
	const rate = 400
	away := s.lasts(time.Minute, 10*time.Minute)
	// A shorter outage starts with what has piled up in a longer one: how long it takes to notice that the broker is
	// back would otherwise be most of the time to drain.
	piled := s.size(200_000, 0)
	var ideal time.Duration
	_, err := s.in(ctx, surroundings{}, func(w *world) (result, error) {
		if err := w.fill(ctx, filling{rows: piled + int(away.Seconds())*rate}); err != nil {
			return result{}, err
		}
		if _, err := w.publish("publisher"); err != nil {
			return result{}, err
		}
		if err := w.broker.await(ctx); err != nil {
			return result{}, err
		}
		began := time.Now()
		err := w.settled(ctx, 5*time.Minute)
		ideal = time.Since(began)
		return result{}, err
	})
	if err != nil {
		return result{}, err
	}
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		p, err := w.publish("publisher")
		if err != nil {
			return result{}, err
		}
		if err := ready(ctx, p); err != nil {
			return result{}, err
		}
		if _, err := emitMany(ctx, w.pool, 100, 0); err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		w.broker.OnCall(func(context.Context, string) error { return status.Error(codes.Unavailable, "away") })
		before := calls(w.broker.Calls())
		if err := w.fill(ctx, filling{rows: piled}); err != nil {
			return result{}, err
		}
		began := time.Now()
		if _, err := w.offer(ctx, offer{rate: rate, lasts: away}); err != nil {
			return result{}, err
		}
		lasted := time.Since(began)
		requests := float64(calls(w.broker.Calls())-before) / lasted.Seconds()
		back := time.Now()
		w.broker.OnCall(nil)
		if err := w.settled(ctx, 10*time.Minute); err != nil {
			return result{}, err
		}
		drained := time.Since(back)
		letters, err := w.count(ctx, `SELECT count(*) FROM outbox_dlq`)
		if err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		return judge(t.exact() && letters == 0, requests <= 5 && drained <= 2*ideal,
			"%s at %d events/s: %d dead letters, %.1f requests/s, %d events drained in %s, ideal %s; %d lost, %d duplicates",
			away, rate, letters, requests, t.events, round(drained), round(ideal), t.lost, t.duplicates), nil
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

func (w *world) fill(ctx context.Context, f filling) error {
	for done := 0; done < f.rows; {
		size := min(50_000, f.rows-done)
		_, err := w.pool.Exec(ctx, `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at, ordering_key)
SELECT id, 'license_status_changed', 'license', id, jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', '2026-01-01T00:00:00Z', 'data',
       jsonb_strip_nulls(jsonb_build_object('licenseId', id, 'storeId', id, 'status', 'verified', 'reason', nullif($2::text, '')))), `+cmp.Or(f.published, "NULL")+`, 'default/' || `+cmp.Or(f.key, "NULL")+`
  FROM (SELECT n, outbox_uuid_v7() AS id FROM generate_series($3::int, $3::int + $1::int - 1) AS n) AS ids
 ORDER BY n`, size, f.padding, done)
		if err != nil {
			return fmt.Errorf("fill the outbox: %w", err)
		}
		done += size
	}
	return nil
}
