package score

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// killedConsumers is R17.
func (s *Session) killedConsumers(ctx context.Context) (result, error) {
	return s.in(ctx, surroundings{redis: true}, func(w *world) (result, error) {
		w.broker.keep = true
		const workers = 3
		start := func(i int) (*process, error) {
			return w.start(fmt.Sprintf("consumer-%d", i+1), nil, "consume", "--example", "--http-addr", "127.0.0.1:0")
		}
		if _, err := w.publish("publisher"); err != nil {
			return result{}, err
		}
		var consumers [workers]*process
		for i := range consumers {
			var err error
			if consumers[i], err = start(i); err != nil {
				return result{}, err
			}
		}
		kills, restarts := s.size(60, 500), 0
		for k := range kills {
			drain(w.broker.arrivals)
			if _, err := emitMany(ctx, w.pool, 200, 0); err != nil {
				return result{}, err
			}
			// In the middle of them.
			if err := w.broker.await(ctx); err != nil {
				return result{}, err
			}
			rig.Pause(ctx, time.Duration(w.random.IntN(120))*time.Millisecond)
			victim := k % workers
			if err := consumers[victim].end(ctx, syscall.SIGKILL); err != nil {
				return result{}, err
			}
			if k%20 == 10 {
				if err := w.redis.Restart(ctx); err != nil {
					return result{}, err
				}
				restarts++
			}
			var err error
			if consumers[victim], err = start(victim); err != nil {
				return result{}, err
			}
		}
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		return w.judgeEffects(ctx, kills, restarts)
	})
}

func (w *world) judgeEffects(ctx context.Context, kills, restarts int) (result, error) {
	events, err := w.count(ctx, `SELECT count(*) FROM outbox_events`)
	if err != nil {
		return result{}, err
	}
	// What a killed one held comes back when the broker's deadline and the lease in Redis have passed.
	began := time.Now()
	waiting := eventually(ctx, 4*time.Minute, func() (bool, error) {
		n, err := w.count(ctx, `SELECT count(DISTINCT event_id) FROM notifications`)
		return n == events, err
	})
	took := time.Since(began)
	rig.Pause(ctx, 5*time.Second) // for what would come twice
	var once, most int
	err = w.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE n = 1), coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM notifications GROUP BY event_id) AS e`).Scan(&once, &most)
	if err != nil {
		return result{}, err
	}
	return judge(waiting == nil && once == events && most == 1, true, "%d kills, %d restarts of Redis: %d of %d events with one effect, at most %d; the last %s after the last kill",
		kills, restarts, once, events, most, round(took)), nil
}
