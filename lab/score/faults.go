package score

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// restarts is R8.
func (s *Session) restarts(ctx context.Context) (result, error) {
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		all, err := w.publishers(3, "--lease", "8s", "--publish-timeout", "4s")
		if err != nil {
			return result{}, err
		}
		if err := ready(ctx, all...); err != nil {
			return result{}, err
		}
		load, stop := context.WithCancel(ctx)
		defer stop()
		var producing sync.WaitGroup
		producing.Go(func() { w.insist(load) })
		var took []time.Duration
		for range s.size(20, 20) {
			rig.Pause(ctx, time.Second)
			if err := w.postgres.Restart(ctx); err != nil {
				return result{}, err
			}
			accepts := time.Now()
			w.pool.Reset()
			ids, err := emitMany(ctx, w.pool, 1, 0)
			if err != nil {
				return result{}, err
			}
			err = eventually(ctx, time.Minute, func() (bool, error) {
				_, ok := w.broker.firstAt(ids[0])
				return ok, nil
			})
			if err != nil {
				return result{}, fmt.Errorf("publish after a restart: %w", err)
			}
			at, _ := w.broker.firstAt(ids[0])
			took = append(took, at.Sub(accepts))
		}
		stop()
		producing.Wait()
		exited := 0
		for _, p := range all {
			if !p.Alive() {
				exited++
			}
		}
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		again := spreadOf(took)
		return judge(t.lost == 0 && t.unknown == 0 && exited == 0, again.max <= 3*time.Second,
			"%d restarts: publishing again after at most %s (median %s); %d processes exited; %d of %d events lost, %d duplicates",
			again.n, round(again.max), round(again.p50), exited, t.lost, t.events, t.duplicates), nil
	})
}

// insist emits, whatever becomes of its connection.
func (w *world) insist(ctx context.Context) {
	for rig.Pause(ctx, 10*time.Millisecond) {
		_, _ = emitMany(ctx, w.pool, 1, 0) // the database may be away
	}
}

// cutCommits is R9: a producer that does not hear the answer to its COMMIT does it all again under the same id.
func (s *Session) cutCommits(ctx context.Context) (result, error) {
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		if _, err := w.pool.Exec(ctx, `CREATE TABLE score_orders (id uuid PRIMARY KEY)`); err != nil {
			return result{}, err
		}
		if _, err := w.publishers(2); err != nil {
			return result{}, err
		}
		cutter, err := rig.NewCutter(hostOf(w.databaseURL), 0.5, w.random)
		if err != nil {
			return result{}, err
		}
		url := withHost(w.databaseURL, cutter.Addr())
		n := s.size(2000, 2000)
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(8)
		for range n {
			group.Go(func() error { return persist(groupCtx, url, newEvent(false)) })
		}
		err = group.Wait()
		cuts := cutter.Close()
		if err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		orders, err := w.count(ctx, `SELECT count(*) FROM score_orders AS o JOIN outbox_events USING (id)`)
		if err != nil {
			return result{}, err
		}
		lost := n - orders + t.lost
		return judge(lost == 0 && t.exact() && t.events == n, true, "%d transactions, %d replies cut: %d lost, %d doubled",
			n, cuts, lost, t.duplicates+t.events-orders), nil
	})
}

// persist writes an order and its event until the commit is known.
func persist(ctx context.Context, url string, event emit.Event) error {
	for ctx.Err() == nil {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return order(ctx, tx, event.ID, event) })
		_ = conn.Close(ctx) // usually cut already
		if refused := (*pgconn.PgError)(nil); err == nil || errors.As(err, &refused) {
			return err
		}
	}
	return ctx.Err()
}

func order(ctx context.Context, tx pgx.Tx, id uuid.UUID, event emit.Event) error {
	if _, err := tx.Exec(ctx, `INSERT INTO score_orders (id) VALUES ($1) ON CONFLICT DO NOTHING`, id); err != nil {
		return err
	}
	_, err := emit.Emit(ctx, tx, event)
	return err
}

// lateCommits is R11. Without the hint, so that the poll is what brings them.
func (s *Session) lateCommits(ctx context.Context) (result, error) {
	const poll, hold = 500 * time.Millisecond, 5 * time.Second
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		all, err := w.publishers(2, "--wake", "off", "--poll-interval", poll.String())
		if err != nil {
			return result{}, err
		}
		if err := ready(ctx, all...); err != nil {
			return result{}, err
		}
		events, err := w.offer(ctx, offer{rate: 100, lasts: s.lasts(40*time.Second, 3*time.Minute), lateShare: 0.05, hold: hold})
		if err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		late := w.waits(events, func(c committed) bool { return c.late })
		return judge(t.exact(), late.max <= poll+250*time.Millisecond, "%d of %d transactions late, poll %s: published p99 %s, longest %s after commit; %d lost, %d duplicates",
			late.n, t.events, poll, round(late.p99), round(late.max), t.lost, t.duplicates), nil
	})
}
