package score

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const parkedKey = "parked"

// behindDeadHead is R25: two outboxes are drained in turn, one of which has a dead event and what
// waits behind it.
func (s *Session) behindDeadHead(ctx context.Context) result {
	followers, drained := s.size(100_000, 100_000), s.size(20_000, 20_000)
	lasts := s.lasts(20*time.Second, 20*time.Second)
	return s.in(ctx, surroundings{}, func(clean *world) result {
		return s.in(ctx, surroundings{}, func(w *world) result {
			letter := w.park(ctx, followers)
			var without, beside []float64
			for range 3 {
				for of, rates := range map[*world]*[]float64{clean: &without, w: &beside} {
					*rates = append(*rates, of.drainRate(ctx, drained))
				}
			}
			share := slices.Max(beside) / slices.Max(without)
			calm, others := keyedWaits(ctx, clean, w, lasts)
			early := w.count(ctx, `SELECT count(*) FROM outbox_events AS e JOIN outbox_events AS head USING (ordering_key)
				 WHERE head.dead_at IS NOT NULL AND e.seq > head.seq AND e.published_at IS NOT NULL`)
			began := time.Now()
			w.command(ctx, "dlq", "discard", letter, "--yes", "--note", "scoreboard")
			w.settled(ctx, 10*time.Minute)
			took := time.Since(began)
			wrong := w.disordered(ctx)
			t := w.tally(ctx)
			return judge(t.exact() && wrong == 0 && early == 0, share >= 0.8 && others.p99-calm.p99 <= 50*time.Millisecond,
				"%d parked: %.2f of the rate without (%d events of %d keys in turns), the others' p99 %s, without %s; none of them sent before the discard (%d), all %s after it, %d out of order, %d lost, %d duplicates",
				followers, share, drained, drained/2, round(others.p99), round(calm.p99), early, round(took), wrong, t.lost, t.duplicates)
		})
	})
}

// park lets an event die and commits followers of it. It returns the dead letter, and leaves a
// publisher behind.
func (w *world) park(ctx context.Context, followers int) (letter string) {
	// One that the topic takes goes before it: the topic would be blamed otherwise.
	proof, head := newEvent(false), newEvent(true)
	proof.OrderingKey, head.OrderingKey = parkedKey, parkedKey
	emitAll(ctx, w.pool, proof, head)
	p := w.publish("publisher")
	rig.Await(ctx, time.Minute, "the dead letter", func() bool {
		letter = strings.TrimSpace(w.command(ctx, "dlq", "list", "-o", "id"))
		return letter != ""
	})
	p.End(ctx, syscall.SIGTERM)
	w.fill(ctx, followers, map[string]string{"ordering_key": "'default/" + parkedKey + "'"})
	return letter
}

// drainRate fills the outbox with events, two to a key, starts a publisher and returns how many it
// sends a second.
func (w *world) drainRate(ctx context.Context, n int) float64 {
	w.fill(ctx, n, map[string]string{"ordering_key": `'default/drain/' || n / 2`})
	w.Broker.Drain()
	had, _ := w.ledger.counts()
	p := w.publish("publisher")
	w.Broker.AwaitRequest(ctx)
	began := time.Now()
	rig.Await(ctx, 5*time.Minute, "the drain", func() bool {
		has, _ := w.ledger.counts()
		return has >= had+n
	})
	took := time.Since(began)
	p.End(ctx, syscall.SIGTERM)
	return float64(n) / took.Seconds()
}

// keyedWaits offers events with keys to a publisher of each world, in turns, and returns how long
// they took. The publishers stay.
func keyedWaits(ctx context.Context, clean, other *world, lasts time.Duration) (calm,
	others spread) {
	const turns = 5
	worlds := []*world{clean, other}
	offered := make([][]committed, len(worlds))
	for _, w := range worlds {
		w.publishers(ctx, 1)
	}
	rig.Pause(ctx, time.Second) // the first sweeps
	for range turns {
		for i, w := range worlds {
			offered[i] = append(offered[i], w.offer(ctx, offer{rate: 100, lasts: lasts / turns,
				keyed: true})...)
		}
	}
	for i, w := range worlds {
		rig.Await(ctx, time.Minute, "events beside the parked ones", func() bool {
			return w.waits(offered[i], everyOne).n == len(offered[i])
		})
	}
	return clean.waits(offered[0], everyOne), other.waits(offered[1], everyOne)
}

func everyOne(committed) bool { return true }

// hotKey is R26.
func (s *Session) hotKey(ctx context.Context) result {
	n := s.size(50_000, 50_000)
	return s.in(ctx, surroundings{}, func(w *world) result {
		hot := newEvent(false)
		license := hot.Data.(packfinderz.LicenseStatusChanged)
		license.Reason = strings.Repeat("x", 700)
		hot.Data = license
		rig.Fill(ctx, w.pool, n, hot, map[string]string{"ordering_key": "'default/hot'"}, s.say)
		size := w.count(ctx, `SELECT avg(octet_length(payload_json::text))::int FROM outbox_events`)
		w.publish("publisher")
		w.Broker.AwaitRequest(ctx)
		began := time.Now()
		beside := w.offer(ctx, offer{rate: 50, lasts: s.lasts(5*time.Second, 5*time.Second), keyed: true})
		w.settled(ctx, 10*time.Minute)
		wrong := w.disordered(ctx)
		t := w.tally(ctx)
		last := w.lastOf(ctx, "default/hot")
		perSecond, others := float64(n)/last.Sub(began).Seconds(), w.waits(beside, everyOne)
		return judge(t.exact() && wrong == 0, perSecond*float64(size) >= 2e6,
			"%d events of %d bytes in one key: %.1f MB/s, %.0f events/s; other keys' p50 %s, p99 %s meanwhile; %d out of order, %d lost, %d duplicates",
			n, size, perSecond*float64(size)/1e6, perSecond, round(others.p50), round(others.p99), wrong, t.lost, t.duplicates)
	})
}

// lastOf is when the broker first stored the last event of a key.
func (w *world) lastOf(ctx context.Context, key string) time.Time {
	var id string
	rig.Check(w.pool.QueryRow(ctx,
		`SELECT id::text FROM outbox_events WHERE ordering_key = $1 ORDER BY seq DESC LIMIT 1`, key).Scan(&id))
	first, _ := w.ledger.of(id) // one that is lost is counted elsewhere
	return first.at
}

// disordered counts events that the broker had before an earlier one of their ordering key, or not
// at all.
func (w *world) disordered(ctx context.Context) (n int) {
	rows := rig.Must(w.pool.Query(ctx, `SELECT ordering_key, id::text FROM outbox_events
		WHERE ordering_key IS NOT NULL AND passed_at IS NULL ORDER BY seq`))
	defer rows.Close()
	last := map[string]int{}
	for rows.Next() {
		var key, id string
		rig.Check(rows.Scan(&key, &id))
		first, there := w.ledger.of(id)
		if !there || first.place < last[key] {
			n++
			continue
		}
		last[key] = first.place
	}
	rig.Check(rows.Err())
	return n
}
