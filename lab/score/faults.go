package score

import (
	"context"
	"errors"
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
			var at time.Time
			rig.Await(ctx, time.Minute, "an event after a restart", func() (ok bool) {
				at, ok = w.ledger.firstAt(ids[0])
				return ok
			})
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
		w.settled(ctx, time.Minute)
		t := w.tally(ctx)
		again := spreadOf(took)
		return judge(t.lost == 0 && t.unknown == 0 && exited == 0, again.max <= 3*time.Second,
			"%d restarts: publishing again after at most %s (median %s); %d processes exited; %d of %d events lost, %d duplicates",
			again.n, round(again.max), round(again.p50), exited, t.lost, t.events, t.duplicates)
	})
}

// insist emits, whatever becomes of its connection.
func (w *world) insist(ctx context.Context) {
	for rig.Pause(ctx, 10*time.Millisecond) {
		_ = rig.Carry(func() { emitMany(ctx, w.pool, 1, 0) }) // the database may be away
	}
}

// cutCommits is R9: a producer that does not hear the answer to its COMMIT does it all again under
// the same id.
func (s *Session) cutCommits(ctx context.Context) result {
	return s.in(ctx, surroundings{}, func(w *world) result {
		rig.Must(w.pool.Exec(ctx, `CREATE TABLE score_orders (id uuid PRIMARY KEY)`))
		w.publishers(ctx, 2)
		cutter := rig.Must(rig.NewCutter(rig.HostOf(w.databaseURL), 0.5, w.random))
		url := rig.WithHost(w.databaseURL, cutter.Addr())
		n := s.size(2000, 2000)
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(8)
		for range n {
			group.Go(func() error { return persist(groupCtx, url, newEvent(false)) })
		}
		err := group.Wait()
		cuts := cutter.Close()
		rig.Check(err)
		w.settled(ctx, time.Minute)
		t := w.tally(ctx)
		orders := w.count(ctx, `SELECT count(*) FROM score_orders AS o JOIN outbox_events USING (id)`)
		lost := n - orders + t.lost
		return judge(lost == 0 && t.exact() && t.events == n, true, "%d transactions, %d replies cut: %d lost, %d doubled",
			n, cuts, lost, t.duplicates+t.events-orders)
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
	if _, err := tx.Exec(ctx, `INSERT INTO score_orders (id) VALUES ($1) ON CONFLICT DO NOTHING`,
		id); err != nil {
		return err
	}
	_, err := emit.Emit(ctx, tx, event)
	return err
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
