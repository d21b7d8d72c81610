package score

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// parkedKey is the ordering key that stands still.
const parkedKey = "parked"

// behindDeadHead is R25: two outboxes are drained in turn, one of which has a dead event and what waits behind it.
func (s *Session) behindDeadHead(ctx context.Context) (result, error) {
	followers, drained := s.size(100_000, 100_000), s.size(20_000, 20_000)
	lasts := s.lasts(20*time.Second, 20*time.Second)
	return s.in(ctx, surroundings{}, func(clean *world) (result, error) {
		return s.in(ctx, surroundings{}, func(w *world) (result, error) {
			letter, err := w.park(ctx, followers)
			if err != nil {
				return result{}, err
			}
			var without, beside []float64
			for range 3 {
				for of, rates := range map[*world]*[]float64{clean: &without, w: &beside} {
					rate, err := of.drainRate(ctx, drained)
					if err != nil {
						return result{}, err
					}
					*rates = append(*rates, rate)
				}
			}
			share := slices.Max(beside) / slices.Max(without)
			calm, others, err := keyedWaits(ctx, clean, w, lasts)
			if err != nil {
				return result{}, err
			}
			early, err := w.count(ctx, `SELECT count(*) FROM outbox_events AS e JOIN outbox_events AS head USING (ordering_key)
				 WHERE head.dead_at IS NOT NULL AND e.seq > head.seq AND e.published_at IS NOT NULL`)
			if err != nil {
				return result{}, err
			}
			began := time.Now()
			if _, err := w.command(ctx, "dlq", "discard", letter, "--yes", "--note", "scoreboard"); err != nil {
				return result{}, err
			}
			if err := w.settled(ctx, 10*time.Minute); err != nil {
				return result{}, err
			}
			took := time.Since(began)
			wrong, err := w.disordered(ctx, w.broker.place)
			if err != nil {
				return result{}, err
			}
			t, err := w.tally(ctx)
			if err != nil {
				return result{}, err
			}
			return judge(t.exact() && wrong == 0 && early == 0, share >= 0.8 && others.p99-calm.p99 <= 50*time.Millisecond,
				"%d parked: %.2f of the rate without (%d events of %d keys in turns), the others' p99 %s, without %s; none of them sent before the discard (%d), all %s after it, %d out of order, %d lost, %d duplicates",
				followers, share, drained, drained/2, round(others.p99), round(calm.p99), early, round(took), wrong, t.lost, t.duplicates), nil
		})
	})
}

// park lets an event die and commits followers of it. It returns the dead letter, and leaves a publisher behind.
func (w *world) park(ctx context.Context, followers int) (letter string, err error) {
	// One that the topic takes goes before it: the topic would be blamed otherwise.
	proof, head := newEvent(false), newEvent(true)
	proof.OrderingKey, head.OrderingKey = parkedKey, parkedKey
	if err := w.emitAll(ctx, proof, head); err != nil {
		return "", err
	}
	p, err := w.publish("publisher")
	if err != nil {
		return "", err
	}
	err = eventually(ctx, time.Minute, func() (bool, error) {
		out, err := w.command(ctx, "dlq", "list", "-o", "id")
		letter = strings.TrimSpace(out)
		return letter != "", err
	})
	if err != nil {
		return "", fmt.Errorf("wait for the dead letter: %w", err)
	}
	if err := p.end(ctx, syscall.SIGTERM); err != nil {
		return "", err
	}
	return letter, w.fill(ctx, filling{rows: followers, key: "'" + parkedKey + "'"})
}

// drainRate fills the outbox with events, two to a key, starts a publisher and returns how many it sends a second.
func (w *world) drainRate(ctx context.Context, n int) (float64, error) {
	if err := w.fill(ctx, filling{rows: n, key: `'drain/' || n / 2`}); err != nil {
		return 0, err
	}
	drain(w.broker.arrivals)
	had := w.broker.events()
	p, err := w.publish("publisher")
	if err != nil {
		return 0, err
	}
	if err := w.broker.await(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	err = eventually(ctx, 5*time.Minute, func() (bool, error) { return w.broker.events() >= had+n, nil })
	if err != nil {
		return 0, fmt.Errorf("drain: %w", err)
	}
	took := time.Since(began)
	return float64(n) / took.Seconds(), p.end(ctx, syscall.SIGTERM)
}

// keyedWaits offers events with keys to a publisher of each world, in turns, and returns how long they took. The
// publishers stay.
func keyedWaits(ctx context.Context, clean, other *world, lasts time.Duration) (calm, others spread, err error) {
	const turns = 5
	worlds := []*world{clean, other}
	offered := make([][]committed, len(worlds))
	for _, w := range worlds {
		p, err := w.publish("publisher")
		if err != nil {
			return calm, others, err
		}
		if err := ready(ctx, p); err != nil {
			return calm, others, err
		}
	}
	rig.Pause(ctx, time.Second) // the first sweeps
	for range turns {
		for i, w := range worlds {
			events, err := w.offer(ctx, offer{rate: 100, lasts: lasts / turns, keyed: true})
			if err != nil {
				return calm, others, err
			}
			offered[i] = append(offered[i], events...)
		}
	}
	for i, w := range worlds {
		err := eventually(ctx, time.Minute, func() (bool, error) {
			return w.waits(offered[i], everyOne).n == len(offered[i]), nil
		})
		if err != nil {
			return calm, others, fmt.Errorf("wait for events beside the parked ones: %w", err)
		}
	}
	return clean.waits(offered[0], everyOne), other.waits(offered[1], everyOne), nil
}

func everyOne(committed) bool { return true }

// hotKey is R26.
func (s *Session) hotKey(ctx context.Context) (result, error) {
	n := s.size(50_000, 50_000)
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		if err := w.fill(ctx, filling{rows: n, key: `'hot'`, padding: strings.Repeat("x", 700)}); err != nil {
			return result{}, err
		}
		size, err := w.count(ctx, `SELECT avg(octet_length(payload_json::text))::int FROM outbox_events`)
		if err != nil {
			return result{}, err
		}
		if _, err := w.publish("publisher"); err != nil {
			return result{}, err
		}
		if err := w.broker.await(ctx); err != nil {
			return result{}, err
		}
		began := time.Now()
		beside, err := w.offer(ctx, offer{rate: 50, lasts: s.lasts(5*time.Second, 5*time.Second), keyed: true})
		if err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, 10*time.Minute); err != nil {
			return result{}, err
		}
		wrong, err := w.disordered(ctx, w.broker.place)
		if err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		last, err := w.lastOf(ctx, "default/hot")
		if err != nil {
			return result{}, err
		}
		perSecond, others := float64(n)/last.Sub(began).Seconds(), w.waits(beside, everyOne)
		return judge(t.exact() && wrong == 0, perSecond*float64(size) >= 2e6,
			"%d events of %d bytes in one key: %.1f MB/s, %.0f events/s; other keys' p50 %s, p99 %s meanwhile; %d out of order, %d lost, %d duplicates",
			n, size, perSecond*float64(size)/1e6, perSecond, round(others.p50), round(others.p99), wrong, t.lost, t.duplicates), nil
	})
}

// lastOf is when the broker first stored the last event of a key.
func (w *world) lastOf(ctx context.Context, key string) (time.Time, error) {
	var id string
	err := w.pool.QueryRow(ctx, `SELECT id::text FROM outbox_events WHERE ordering_key = $1 ORDER BY seq DESC LIMIT 1`, key).Scan(&id)
	if err != nil {
		return time.Time{}, fmt.Errorf("find the last event of %s: %w", key, err)
	}
	at, _ := w.broker.firstAt(id) // one that is lost is counted elsewhere
	return at, nil
}
