package score

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// exitPartial is outboxctl's code for a change of which a part was not possible.
const exitPartial = 5

// twoOperators is R18.
func (s *Session) twoOperators(ctx context.Context) result {
	return s.in(ctx, surroundings{}, func(w *world) result {
		n := s.size(1000, 1000)
		// Every other one is taken: a topic that takes none is blamed instead of its events.
		emitMany(ctx, w.pool, 2*n, 2)
		p := w.publish("publisher")
		w.settled(ctx, 2*time.Minute)
		p.End(ctx, syscall.SIGTERM)
		dead := w.count(ctx, `SELECT count(*) FROM outbox_dlq WHERE state = 'open'`)
		w.Broker.Heal()
		group, groupCtx := errgroup.WithContext(ctx)
		for range 2 {
			group.Go(func() error {
				ran := rig.Command(groupCtx, w.env(), "", w.Program, "dlq", "replay", "--reason", "rejected_by_broker",
					"--yes", "--note", "scoreboard", "-o", "id")
				if ran.Exit == 0 || ran.Exit == exitPartial {
					return nil // what the other one did first is not an error of the pair
				}
				return errors.New(ran.Stderr)
			})
		}
		rig.Check(group.Wait())
		w.publish("publisher")
		w.settled(ctx, time.Minute)
		t := w.tally(ctx)
		var replayed, audited int
		rig.Check(w.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox_dlq WHERE state = 'replayed'),
			(SELECT coalesce(sum(affected), 0) FROM outbox_audit WHERE action = 'dlq.replay')`).Scan(&replayed, &audited))
		return judge(t.exact() && t.dead == 0 && dead == n && replayed == n && audited == n, true,
			"%d dead letters: %d replayed, %d in the audit trail, %d lost, %d sent twice", dead, replayed, audited, t.lost, t.duplicates)
	})
}

// cleanup is R21.
func (s *Session) cleanup(ctx context.Context) result {
	return s.in(ctx, surroundings{}, func(w *world) result {
		old := s.size(200_000, 1_000_000)
		w.fill(ctx, old, map[string]string{"published_at": "now() - interval '40 days'"})
		const recent = 1000
		w.fill(ctx, recent, map[string]string{"published_at": "now() - interval '20 days'"})
		rig.Must(w.pool.Exec(ctx, `VACUUM ANALYZE outbox_events`))
		w.publish("publisher")
		load, stop := context.WithCancel(ctx)
		defer stop()
		var offered int
		var producing errgroup.Group
		producing.Go(func() error { return rig.Carry(func() { offered = w.trickle(load, 200) }) })
		kills := w.cleanUntilDone(ctx)
		stop()
		rig.Check(producing.Wait())
		w.settled(ctx, time.Minute)
		var left, wrong int
		rig.Check(w.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE published_at < now() - interval '30 days'), $1::int - count(*) FILTER (WHERE published_at >= now() - interval '30 days')
			FROM outbox_events`, recent+offered).Scan(&left, &wrong))
		longest, n := w.slowest("outbox_cleanup")
		return judge(wrong == 0 && left == 0, longest < 200*time.Millisecond,
			"%d rows under %d committed events, killed %d times: %d wrong deletes, %d old rows left; %d transactions, longest %s",
			old, offered, kills, wrong, left, n, round(longest))
	})
}

// trickle emits at a rate until ctx ends, and says how many were committed.
func (w *world) trickle(ctx context.Context, perSecond int) (n int) {
	for limiter := rate.NewLimiter(rate.Limit(perSecond), 1); limiter.Wait(ctx) == nil; n++ {
		emitMany(context.WithoutCancel(ctx), w.pool, 1, 0)
	}
	return n
}

// cleanUntilDone has cleanup die five times and then lets it finish. Each statement's time goes to
// the server's log.
func (w *world) cleanUntilDone(ctx context.Context) (kills int) {
	logged := "OUTBOXCTL_DATABASE_URL=" + w.databaseURL + "&options=-c%20log_min_duration_statement%3D0"
	args := []string{"cleanup", "--older-than", "30d", "--note", "scoreboard"}
	for try := 0; kills < 5; try++ {
		env := []string{logged}
		if try%2 == 0 { // between two batches
			env = append(env, fmt.Sprintf("%s=%s:crash:%d", failpoint.Env, failpoint.Cleaning,
				1+w.random.IntN(3)))
		}
		p := w.start("cleanup", env, args...)
		if try%2 == 1 { // anywhere
			rig.Pause(ctx, time.Duration(100+w.random.IntN(400))*time.Millisecond)
			p.Signal(syscall.SIGKILL)
		}
		p.Wait(ctx, time.Minute)
		if p.Succeeded() {
			return kills // nothing left to do for the others
		}
		kills++
	}
	p := w.start("cleanup", []string{logged}, args...)
	p.Wait(ctx, 10*time.Minute)
	if !p.Succeeded() {
		rig.Check(fmt.Errorf("cleanup: %s", p.Exit()))
	}
	return kills
}

// slowest reads the times of the statements that mention a word from the server's log.
func (w *world) slowest(word string) (longest time.Duration, n int) {
	log := rig.Must(os.ReadFile(filepath.Join(w.Dir, "postgres.log")))
	line := regexp.MustCompile(`duration: ([0-9.]+) ms +execute .*` + word)
	for _, m := range line.FindAllSubmatch(log, -1) {
		n++
		longest = max(longest, rig.Must(time.ParseDuration(string(m[1])+"ms")))
	}
	return longest, n
}

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
