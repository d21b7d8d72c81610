package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	oldTypes = "  order.ready: {topic: orders, aggregate: order}\n  order.gone: {topic: orders, aggregate: order}\n"
	// newTypes has one more, and takes data that the former version refuses.
	newTypes = "  order.ready: {topic: orders, aggregate: order}\n  order.gone: {topic: orders, aggregate: order, schema: any}\n  order.found: {topic: orders, aggregate: order}\n"

	emitReady = `SELECT id::text FROM outbox_emit('order.ready', 'order', '42', '{}')`
	emitGone  = `SELECT id::text FROM outbox_emit('order.gone', 'order', '42', '[1]')`
	emitFound = `SELECT id::text FROM outbox_emit('order.found', 'order', '42', '{}')`

	createOwn = `CREATE TABLE my_outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_type text NOT NULL, aggregate_id text NOT NULL,
		payload jsonb NOT NULL, delivered_at timestamptz)`
	insertOwn = `INSERT INTO my_outbox (event_type, aggregate_id, payload) VALUES ('order.ready', '42', '{}') RETURNING id::text`
	jobOwn    = `WITH taken AS (SELECT id FROM my_outbox WHERE delivered_at IS NULL LIMIT 100 FOR UPDATE SKIP LOCKED)
		UPDATE my_outbox AS m SET delivered_at = now() FROM taken WHERE m.id = taken.id RETURNING m.id::text`
)

// rolling replaces two publishers with another catalogue while events of both are written.
func (l *lab) rolling(ctx context.Context, s *site) error {
	former, err1 := s.catalogue("old", oldTypes)
	newer, err2 := s.catalogue("new", newTypes)
	err := errors.Join(err1, err2)
	if err == nil {
		err = s.all(ctx, []string{"migrate", "--types", "text"}, []string{"registry", "apply", former}, []string{"topic", "ensure"})
	}
	if err != nil {
		return err
	}
	var old [2]*rig.Child
	for i := range old {
		if old[i], err = s.publish(ctx, "--catalogue", former); err != nil {
			return err
		}
	}
	first := s.writers(ctx, emitReady)
	rig.Pause(ctx, l.duration/4)
	if _, err := s.outboxctl(ctx, "registry", "apply", newer); err != nil {
		return err
	}
	second := s.writers(ctx, emitGone, emitFound)
	for i, args := range [][]string{{"--catalogue", newer}, {}} {
		rig.Pause(ctx, l.duration/4)
		if _, err := s.publish(ctx, args...); err != nil {
			return err
		}
		stop(old[i])
	}
	rig.Pause(ctx, l.duration/4)
	if err := errors.Join(first(), second()); err != nil {
		return err
	}
	return errors.Join(s.drained(ctx), s.account(ctx))
}

// job publishes the table that was there before, until the returned function is called and nothing is left in it.
func (s *site) job(ctx context.Context) (end func() error) {
	ended, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			n, err := s.jobOnce(ctx)
			select {
			case <-ended:
				if n == 0 || err != nil {
					failed <- err
					return
				}
			default:
				if err != nil {
					failed <- err
					return
				}
				rig.Pause(ctx, 20*time.Millisecond)
			}
		}
	}()
	return func() error { close(ended); return <-failed }
}

func (s *site) jobOnce(ctx context.Context) (int, error) {
	rows, err := s.pool.Query(ctx, jobOwn)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return n, err
		}
		s.jobbed[id]++
		n++
	}
	return n, rows.Err()
}

// setUp is what paths A and B do first, beside the application.
func (s *site) setUp(ctx context.Context) error {
	file, err := s.catalogue("my", oldTypes)
	if err != nil {
		return err
	}
	return s.all(ctx, []string{"migrate", "--types", "text"}, []string{"registry", "apply", file}, []string{"topic", "ensure"})
}

// pathA releases an application that emits, while the old release and its job go on for a while.
func (l *lab) pathA(ctx context.Context, s *site) error {
	if _, err := s.pool.Exec(ctx, createOwn); err != nil {
		return err
	}
	job, former := s.job(ctx), s.writers(ctx, insertOwn)
	if err := s.setUp(ctx); err != nil {
		return err
	}
	rig.Pause(ctx, l.duration/3)
	newer := s.writers(ctx, emitReady)
	if _, err := s.publish(ctx); err != nil {
		return err
	}
	rig.Pause(ctx, l.duration/3)
	if err := former(); err != nil {
		return err
	}
	rig.Pause(ctx, l.duration/3)
	return errors.Join(job(), newer(), s.drained(ctx), s.account(ctx))
}

// pathB switches the page's trigger on, off and on beside the application and its job.
func (l *lab) pathB(ctx context.Context, s *site) error {
	_, rest, ok := strings.Cut(l.page, "```sql\n-- path B\n")
	trigger, _, _ := strings.Cut(rest, "```")
	if !ok {
		return errors.New("the page has no trigger for path B")
	}
	if _, err := s.pool.Exec(ctx, createOwn); err != nil {
		return err
	}
	job, writers := s.job(ctx), s.writers(ctx, insertOwn, insertOwn, insertOwn)
	if err := s.setUp(ctx); err != nil {
		return err
	}
	if _, err := s.publish(ctx); err != nil {
		return err
	}
	for _, statement := range []string{trigger, "ALTER TABLE my_outbox DISABLE TRIGGER my_outbox_relay", "ALTER TABLE my_outbox ENABLE TRIGGER my_outbox_relay"} {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("switch the trigger: %w", err)
		}
		rig.Pause(ctx, l.duration/3)
	}
	return errors.Join(writers(), job(), s.drained(ctx), s.account(ctx))
}
