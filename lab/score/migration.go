package score

import (
	"context"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// migration is R20: the oldest schema, with rows, brought up to date under producers that know
// nothing of it.
func (s *Session) migration(ctx context.Context) result {
	return s.in(ctx, surroundings{schema: "1"}, func(w *world) result {
		rows := s.size(50_000, 500_000)
		rig.Must(w.pool.Exec(ctx, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at)
			SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', now() - n * interval '1 second' FROM generate_series(1, $1::int) AS n`, rows))
		load, stop := context.WithCancel(ctx)
		defer stop()
		var producing sync.WaitGroup
		var took spread
		var failed int
		producing.Go(func() { took, failed = w.insertAsBefore(load, 500) })
		w.migrateAndDie(ctx, s.lasts(30*time.Second, 30*time.Second))
		rig.Pause(ctx, time.Second)
		stop()
		producing.Wait()
		left := w.count(ctx, `SELECT $1::int - count(*) FROM outbox_events WHERE seq > 0`, rows+took.n)
		return judge(failed == 0 && left == 0, took.p99 < time.Second, "%d old rows, %d inserts, killed 5 times: %d errors, producers' p99 %s, longest %s; %d rows missing or unnumbered",
			rows, took.n, failed, round(took.p99), round(took.max), left)
	})
}

// migrateAndDie kills migrate five times, three of them while a reader is in the way, and then lets
// it finish.
func (w *world) migrateAndDie(ctx context.Context, reading time.Duration) {
	reader := rig.Must(w.pool.Begin(ctx))
	defer func() { _ = reader.Rollback(context.WithoutCancel(ctx)) }()
	rig.Must(reader.Exec(ctx, `SELECT FROM outbox_events LIMIT 1`))
	opened := time.Now()
	for i := range 5 {
		if i == 3 {
			rig.Pause(ctx, time.Until(opened.Add(reading)))
			rig.Check(reader.Rollback(ctx))
		}
		p := w.start("migrate", nil, "migrate")
		after := time.Duration(100+w.random.IntN(500)) * time.Millisecond
		if i < 3 {
			after = reading / 4
		}
		rig.Pause(ctx, after)
		p.End(ctx, syscall.SIGKILL)
	}
	w.command(ctx, "migrate")
}

// insertAsBefore inserts into the table as it was before outboxctl had it, until ctx ends, and
// counts what failed.
func (w *world) insertAsBefore(ctx context.Context, perSecond int) (_ spread, failed int) {
	limiter := rate.NewLimiter(rate.Limit(perSecond), 1)
	var mu sync.Mutex
	var took []time.Duration
	insert := func() {
		began := time.Now()
		_, err := w.pool.Exec(context.WithoutCancel(ctx), `INSERT INTO outbox_events
			(id, event_type, aggregate_type, aggregate_id, payload_json) VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}')`)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed++
			w.session.say("  insert: %v", err)
			return
		}
		took = append(took, time.Since(began))
	}
	var producers sync.WaitGroup
	for range 16 {
		producers.Go(func() {
			for limiter.Wait(ctx) == nil {
				insert()
			}
		})
	}
	producers.Wait()
	return spreadOf(took), failed
}
