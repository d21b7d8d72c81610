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
	return w.emitAll(ctx, batch...)
}

// emitAll commits events in one transaction.
func (w *world) emitAll(ctx context.Context, events ...emit.Event) error {
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		_, err := emit.EmitAll(ctx, tx, events)
		return err
	})
	if err != nil {
		return fmt.Errorf("emit: %w", err)
	}
	return nil
}

// emitWhile emits some events ten times a second for that long.
func emitWhile(ctx context.Context, lasts time.Duration, some func(context.Context) error) error {
	for ends := time.Now().Add(lasts); time.Now().Before(ends) && rig.Pause(ctx, 100*time.Millisecond); {
		if err := some(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shortLease are the arguments of publishers whose lease ends within a scenario's patience.
func shortLease(lease time.Duration) []string {
	return []string{
		"--lease", lease.String(), "--publish-timeout", "1s", "--backoff-base", "100ms", "--poll-interval", "100ms", "--max-attempts", "100",
	}
}

// orderThroughKills is R24. Every fifth publisher is not killed at once: it stands still for two leases, with the keys
// that it was sending, and goes on for a moment.
func (s *Session) orderThroughKills(ctx context.Context) (result, error) {
	const lease = 2 * time.Second
	lasts := s.lasts(20*time.Second, time.Minute)
	return s.in(ctx, surroundings{ordered: true}, func(w *world) (result, error) {
		w.broker.keep = true
		w.broker.set(20 * time.Millisecond) // long enough for each publisher to have something in flight
		sub, err := w.subscribe(ctx)
		if err != nil {
			return result{}, err
		}
		all, err := w.publishers(3, shortLease(lease)...)
		if err != nil {
			return result{}, err
		}
		if err := ready(ctx, all...); err != nil {
			return result{}, err
		}
		work, workCtx := errgroup.WithContext(ctx)
		work.Go(func() error {
			return emitWhile(workCtx, lasts, func(ctx context.Context) error { return w.emitOrdered(ctx, 50) })
		})
		var killed, stopped int
		work.Go(func() (err error) {
			killed, stopped, err = w.killOneASecond(workCtx, all, lasts, lease)
			return err
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
		wrong, err := w.disordered(ctx, w.broker.place)
		if err != nil {
			return result{}, err
		}
		got, err := sub.await(ctx, t.events)
		if err != nil {
			return result{}, err
		}
		received, err := w.disordered(ctx, got.place)
		if err != nil {
			return result{}, err
		}
		return judge(t.lost == 0 && t.unknown == 0 && wrong == 0 && received == 0, true,
			"%d publishers killed, %d of them after %s of standing still: %d events of %d keys, %d first copies out of order at the broker, %d at a subscriber with message ordering; %d lost, %d duplicates stored, %d received",
			killed, stopped, 2*lease, t.events, orderedKeys, wrong, received, t.lost, t.duplicates, got.duplicates), nil
	})
}

// killOneASecond kills a publisher each second and starts another in its place.
func (w *world) killOneASecond(ctx context.Context, all []*process, lasts, lease time.Duration) (killed, stopped int, err error) {
	for ends := time.Now().Add(lasts); time.Now().Before(ends) && rig.Pause(ctx, time.Second); {
		p := all[0]
		if killed%5 == 4 {
			p.Signal(syscall.SIGSTOP)
			rig.Pause(ctx, 2*lease)
			p.Signal(syscall.SIGCONT)
			rig.Pause(ctx, 200*time.Millisecond)
			stopped++
		}
		if err := p.end(ctx, syscall.SIGKILL); err != nil {
			return killed, stopped, err
		}
		killed++
		next, err := w.publish(fmt.Sprintf("publisher-%d", 3+killed), shortLease(lease)...)
		if err != nil {
			return killed, stopped, err
		}
		all = append(all[1:], next)
	}
	return killed, stopped, nil
}

// disordered counts events that were at their place before an earlier one of their ordering key, or nowhere.
func (w *world) disordered(ctx context.Context, place func(id string) (at int, there bool)) (n int, err error) {
	rows, err := w.pool.Query(ctx, `SELECT ordering_key, id::text FROM outbox_events WHERE ordering_key IS NOT NULL AND passed_at IS NULL ORDER BY seq`)
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
		at, there := place(id)
		if !there || at < last[key] {
			n++
			continue
		}
		last[key] = at
	}
	return n, rows.Err()
}
