package score

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// twoOperators is R18.
func (s *Session) twoOperators(ctx context.Context) (result, error) {
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		n := s.size(1000, 1000)
		if _, err := emitMany(ctx, w.pool, n, 1); err != nil {
			return result{}, err
		}
		p, err := w.publish("publisher")
		if err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, 2*time.Minute); err != nil {
			return result{}, err
		}
		if err := p.end(ctx, syscall.SIGTERM); err != nil {
			return result{}, err
		}
		dead, err := w.count(ctx, `SELECT count(*) FROM outbox_dlq WHERE state = 'open'`)
		if err != nil {
			return result{}, err
		}
		w.broker.heal()
		group, groupCtx := errgroup.WithContext(ctx)
		for range 2 {
			group.Go(func() error {
				_, err := w.command(groupCtx, "dlq", "replay", "--reason", "rejected_by_broker", "--yes", "--note", "scoreboard", "-o", "id")
				if code := exitCode(err); code == 0 || code == exitPartial {
					return nil // what the other one did first is not an error of the pair
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return result{}, err
		}
		if _, err := w.publish("publisher"); err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		var replayed, audited int
		err = w.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox_dlq WHERE state = 'replayed'),
			(SELECT coalesce(sum(affected), 0) FROM outbox_audit WHERE action = 'dlq.replay')`).Scan(&replayed, &audited)
		if err != nil {
			return result{}, err
		}
		return judge(t.exact() && t.dead == 0 && dead == n && replayed == n && audited == n, true,
			"%d dead letters: %d replayed, %d in the audit trail, %d lost, %d sent twice", dead, replayed, audited, t.lost, t.duplicates), nil
	})
}

// cleanup is R21.
func (s *Session) cleanup(ctx context.Context) (result, error) {
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		old := s.size(200_000, 1_000_000)
		if err := w.fill(ctx, filling{rows: old, published: "now() - interval '40 days'"}); err != nil {
			return result{}, err
		}
		const recent = 1000
		if err := w.fill(ctx, filling{rows: recent, published: "now() - interval '20 days'"}); err != nil {
			return result{}, err
		}
		if _, err := w.pool.Exec(ctx, `VACUUM ANALYZE outbox_events`); err != nil {
			return result{}, err
		}
		if _, err := w.publish("publisher"); err != nil {
			return result{}, err
		}
		load, stop := context.WithCancel(ctx)
		defer stop()
		var offered int
		var offerErr error
		var producing sync.WaitGroup
		producing.Go(func() { offered, offerErr = w.trickle(load, 200) })
		kills, err := w.cleanUntilDone(ctx)
		stop()
		producing.Wait()
		if err != nil {
			return result{}, err
		}
		if offerErr != nil {
			return result{}, offerErr
		}
		if err := w.settled(ctx, time.Minute); err != nil {
			return result{}, err
		}
		var left, wrong int
		err = w.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE published_at < now() - interval '30 days'), $1::int - count(*) FILTER (WHERE published_at >= now() - interval '30 days')
			FROM outbox_events`, recent+offered).Scan(&left, &wrong)
		if err != nil {
			return result{}, err
		}
		longest, n, err := w.slowest("outbox_cleanup")
		if err != nil {
			return result{}, err
		}
		return judge(wrong == 0 && left == 0, longest < 200*time.Millisecond,
			"%d rows under %d committed events, killed %d times: %d wrong deletes, %d old rows left; %d transactions, longest %s",
			old, offered, kills, wrong, left, n, round(longest)), nil
	})
}

// trickle emits at a rate until ctx ends, and says how many were committed.
func (w *world) trickle(ctx context.Context, perSecond int) (n int, err error) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return n, nil
		case <-tick.C:
			if _, err := emitMany(context.WithoutCancel(ctx), w.pool, 1, 0); err != nil {
				return n, err
			}
			n++
		}
	}
}

// cleanUntilDone has cleanup die five times and then lets it finish. Each statement's time goes to the server's log.
func (w *world) cleanUntilDone(ctx context.Context) (kills int, err error) {
	logged := "OUTBOXCTL_DATABASE_URL=" + w.databaseURL + "&options=-c%20log_min_duration_statement%3D0"
	args := []string{"cleanup", "--older-than", "30d", "--note", "scoreboard"}
	for try := 0; kills < 5; try++ {
		env := []string{logged}
		if try%2 == 0 { // between two batches
			env = append(env, fmt.Sprintf("%s=%s:crash:%d", failpoint.Env, failpoint.Cleaning, 1+w.random.IntN(3)))
		}
		p, err := w.start("cleanup", env, args...)
		if err != nil {
			return kills, err
		}
		if try%2 == 1 { // anywhere
			rig.Pause(ctx, time.Duration(100+w.random.IntN(400))*time.Millisecond)
			p.Signal(syscall.SIGKILL)
		}
		if err := p.wait(ctx, time.Minute); err != nil {
			return kills, err
		}
		if p.Succeeded() {
			return kills, nil // nothing left to do for the others
		}
		kills++
	}
	p, err := w.start("cleanup", []string{logged}, args...)
	if err != nil {
		return kills, err
	}
	if err := p.wait(ctx, 10*time.Minute); err != nil {
		return kills, err
	}
	if !p.Succeeded() {
		return kills, fmt.Errorf("cleanup: %s", p.Exit())
	}
	return kills, nil
}

// slowest reads the times of the statements that mention a word from the server's log.
func (w *world) slowest(word string) (longest time.Duration, n int, err error) {
	file, err := os.Open(filepath.Join(w.dir, "postgres.log"))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = file.Close() }()
	line := regexp.MustCompile(`duration: ([0-9.]+) ms +execute .*` + word)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		ms, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, 0, err
		}
		n++
		longest = max(longest, time.Duration(ms*float64(time.Millisecond)))
	}
	return longest, n, lines.Err()
}
