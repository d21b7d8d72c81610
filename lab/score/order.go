package score

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// orderedKeys is how many ordering keys the events of a scenario share.
const orderedKeys = 200

// emitOrdered commits n events with ordering keys. One producer emits them all, so their order is that of seq.
func (w *world) emitOrdered(ctx context.Context, n int) error {
	batch := make([]emit.Event, n)
	for i := range batch {
		batch[i] = newEvent(false)
		batch[i].OrderingKey = fmt.Sprint("key/", rand.IntN(orderedKeys))
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		_, err := emit.EmitAll(ctx, tx, batch)
		return err
	})
}

// orderThroughKills is R24. Every fifth publisher is not killed at once: it stands still for two leases, with the keys
// that it was sending, and goes on for a moment.
func (s *Session) orderThroughKills(ctx context.Context) (result, error) {
	const lease = 2 * time.Second
	args := []string{
		"--lease", lease.String(), "--publish-timeout", "1s", "--backoff-base", "100ms", "--poll-interval", "100ms", "--max-attempts", "100",
	}
	lasts := s.lasts(20*time.Second, time.Minute)
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		w.broker.set(20 * time.Millisecond) // long enough for each publisher to have something in flight
		all, err := w.publishers(3, args...)
		if err != nil {
			return result{}, err
		}
		if err := ready(ctx, all...); err != nil {
			return result{}, err
		}
		ends := time.Now().Add(lasts)
		work, workCtx := errgroup.WithContext(ctx)
		work.Go(func() error {
			for time.Now().Before(ends) && rig.Pause(workCtx, 100*time.Millisecond) {
				if err := w.emitOrdered(workCtx, 50); err != nil {
					return fmt.Errorf("emit: %w", err)
				}
			}
			return nil
		})
		killed, stopped := 0, 0
		work.Go(func() error {
			for time.Now().Before(ends) && rig.Pause(workCtx, time.Second) {
				p := all[0]
				if killed%5 == 4 {
					p.Signal(syscall.SIGSTOP)
					rig.Pause(workCtx, 2*lease)
					p.Signal(syscall.SIGCONT)
					rig.Pause(workCtx, 200*time.Millisecond)
					stopped++
				}
				if err := p.end(workCtx, syscall.SIGKILL); err != nil {
					return err
				}
				killed++
				next, err := w.publish(fmt.Sprintf("publisher-%d", 3+killed), args...)
				if err != nil {
					return err
				}
				all = append(all[1:], next)
			}
			return nil
		})
		if err := work.Wait(); err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, 2*time.Minute); err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		wrong, err := w.disordered(ctx)
		if err != nil {
			return result{}, err
		}
		return judge(t.lost == 0 && t.unknown == 0 && wrong == 0, true,
			"%d publishers killed, %d of them after %s of standing still: %d events of %d keys, %d first copies out of order, %d lost, %d duplicates",
			killed, stopped, 2*lease, t.events, orderedKeys, wrong, t.lost, t.duplicates), nil
	})
}

// disordered counts events that the broker had before an earlier one of their ordering key.
func (w *world) disordered(ctx context.Context) (n int, err error) {
	rows, err := w.pool.Query(ctx, `SELECT ordering_key, id::text FROM outbox_events WHERE ordering_key IS NOT NULL ORDER BY seq`)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	last := map[string]int{}
	for rows.Next() {
		var key, id string
		if err := rows.Scan(&key, &id); err != nil {
			return 0, err
		}
		at, stored := w.broker.place(id)
		if !stored || at < last[key] {
			n++
			continue
		}
		last[key] = at
	}
	return n, rows.Err()
}
