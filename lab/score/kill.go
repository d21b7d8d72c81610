package score

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// killedPublisher is R6.
func (s *Session) killedPublisher(ctx context.Context) (result, error) {
	const lease = 5 * time.Second
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		// Slow enough for each publisher to have something in flight.
		w.broker.set(300 * time.Millisecond)
		all, err := w.publishers(3, "--lease", lease.String(), "--publish-timeout", "2s", "--backoff-base", "100ms")
		if err != nil {
			return result{}, err
		}
		if err := ready(ctx, all...); err != nil {
			return result{}, err
		}
		owner, err := all[0].owner(ctx)
		if err != nil {
			return result{}, err
		}
		if _, err := emitMany(ctx, w.pool, s.size(20_000, 20_000), 0); err != nil {
			return result{}, err
		}
		const held = `SELECT count(*) FROM outbox_events WHERE locked_by = $1::text::uuid AND published_at IS NULL`
		err = eventually(ctx, 30*time.Second, func() (bool, error) {
			n, err := w.count(ctx, held, owner)
			return n > 0, err
		})
		if err != nil {
			return result{}, fmt.Errorf("wait for rows in flight: %w", err)
		}
		if err := all[0].end(ctx, syscall.SIGKILL); err != nil {
			return result{}, err
		}
		died := time.Now()
		// What its last statement did is committed within moments.
		rig.Pause(ctx, 100*time.Millisecond)
		if _, err := w.pool.Exec(ctx, `CREATE TABLE score_held AS SELECT id FROM outbox_events WHERE locked_by = $1::text::uuid AND published_at IS NULL`, owner); err != nil {
			return result{}, err
		}
		inFlight, err := w.count(ctx, `SELECT count(*) FROM score_held`)
		if err != nil {
			return result{}, err
		}
		w.broker.set(0)
		err = eventually(ctx, time.Minute, func() (bool, error) {
			n, err := w.count(ctx, `SELECT count(*) FROM outbox_events JOIN score_held USING (id) WHERE published_at IS NULL`)
			return n == 0, err
		})
		if err != nil {
			return result{}, fmt.Errorf("wait for the dead one's rows: %w", err)
		}
		took := time.Since(died)
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		return judge(t.lost == 0 && t.unknown == 0 && t.duplicates <= inFlight, took <= lease+2*time.Second,
			"%d events: its %d rows out after %s with a lease of %s; %d lost, %d duplicates", t.events, inFlight, round(took), lease, t.lost, t.duplicates), nil
	})
}

// staleLease is what a publisher says when a settle is refused.
const staleLease = "lease lost: another publisher owns these events now, nothing was changed"

// zombies is R7.
func (s *Session) zombies(ctx context.Context) (result, error) {
	const lease, atOnce = 2 * time.Second, 5
	args := []string{"--lease", lease.String(), "--publish-timeout", "1s", "--backoff-base", "100ms", "--poll-interval", "100ms"}
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		stopped, refused, changed := 0, 0, 0
		for stopped < s.size(50, 50) {
			zombies, err := w.freeze(ctx, atOnce, args)
			if err != nil {
				return result{}, err
			}
			rig.Pause(ctx, 2*lease)
			heir, err := w.publish("heir", args...)
			if err != nil {
				return result{}, err
			}
			if err := w.settled(ctx, 30*time.Second); err != nil {
				return result{}, err
			}
			before, err := w.settlements(ctx)
			if err != nil {
				return result{}, err
			}
			for _, z := range zombies {
				z.Signal(syscall.SIGCONT)
			}
			for _, z := range zombies {
				// One that is not heard of has had its settle accepted, and is counted as such.
				if eventually(ctx, 10*time.Second, func() (bool, error) { return z.said(staleLease) > 0, nil }) == nil {
					refused++
				}
				stopped++
			}
			after, err := w.settlements(ctx)
			if err != nil {
				return result{}, err
			}
			if before != after {
				changed++
			}
			for _, p := range append(zombies, heir) {
				if err := p.end(ctx, syscall.SIGTERM); err != nil {
					return result{}, err
				}
			}
		}
		return judge(refused == stopped && changed == 0, true, "%d stopped for 2 leases of %s: %d stale settles refused, %d rows changed by them",
			stopped, lease, refused, changed), nil
	})
}

// freeze starts publishers and has each stand still between the broker's acknowledgement and its own settle.
func (w *world) freeze(ctx context.Context, n int, args []string) (all []*process, err error) {
	for i := range n {
		p, err := w.start(fmt.Sprintf("zombie-%d", i+1), []string{failpoint.Env + "=" + failpoint.Acknowledged + ":stop:1"},
			append([]string{"publish", "--http-addr", "127.0.0.1:0"}, args...)...)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	if err := ready(ctx, all...); err != nil {
		return all, err
	}
	return all, eventually(ctx, 30*time.Second, func() (bool, error) {
		for _, p := range all {
			if !p.StandsStill() {
				// The publisher that takes it stands still; one at a time, so that one gets one.
				_, err := emitMany(ctx, w.pool, 1, 0)
				rig.Pause(ctx, 150*time.Millisecond)
				return false, err
			}
		}
		return true, nil
	})
}

// settlements is a fingerprint of what the rows say about their delivery.
func (w *world) settlements(ctx context.Context) (state string, err error) {
	err = w.pool.QueryRow(ctx, `SELECT coalesce(md5(string_agg(e::text, ',' ORDER BY seq)), '') FROM outbox_events AS e`).Scan(&state)
	return state, err
}

// terms is R19.
func (s *Session) terms(ctx context.Context) (result, error) {
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		var longest time.Duration
		rounds, leases := s.size(20, 100), 0
		for range rounds {
			w.broker.set(3 * time.Second)
			drain(w.broker.arrivals)
			p, err := w.publish("publisher")
			if err != nil {
				return result{}, err
			}
			if err := ready(ctx, p); err != nil {
				return result{}, err
			}
			if _, err := emitMany(ctx, w.pool, 500, 0); err != nil {
				return result{}, err
			}
			if err := w.broker.await(ctx); err != nil {
				return result{}, err
			}
			rig.Pause(ctx, time.Duration(w.random.IntN(200))*time.Millisecond)
			began := time.Now()
			if err := p.end(ctx, syscall.SIGTERM); err != nil {
				return result{}, err
			}
			longest = max(longest, time.Since(began))
			left, err := w.count(ctx, `SELECT count(*) FROM outbox_events WHERE locked_by IS NOT NULL AND published_at IS NULL`)
			if err != nil {
				return result{}, err
			}
			leases += left
		}
		w.broker.set(0)
		if _, err := w.publish("last"); err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		return judge(t.exact(), leases == 0 && longest <= 20*time.Second, "%d signals, broker taking 3 s: longest end %s, %d leases left, %d lost, %d duplicates of %d events",
			rounds, round(longest), leases, t.lost, t.duplicates, t.events), nil
	})
}

func drain(c <-chan struct{}) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}
