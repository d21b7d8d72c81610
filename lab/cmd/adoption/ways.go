package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	// The table as PackFinderz' own code leaves it: the first migration's, an id by default, no
	// version.
	packFinderz = `DROP TABLE outbox_schema_version; ALTER TABLE outbox_events ALTER COLUMN id SET DEFAULT gen_random_uuid()`

	// Envelopes have an eventId of their own, as that code wrote them. $2 rows wait.
	fillTable = `INSERT INTO outbox_events (event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at)
SELECT 'order_created', 'checkout_group', gen_random_uuid(), ` + foreignEnvelope + `, now() - (($1::int - n) || ' ms')::interval,
       CASE WHEN n <= $1::int - $2::int THEN now() END
  FROM generate_series(1, $1::int) AS n`

	foreignEnvelope = `jsonb_build_object('version', 1, 'eventId', gen_random_uuid(), 'occurredAt', '2026-01-01T00:00:00Z', 'data',
       jsonb_build_object('checkoutGroupId', gen_random_uuid(), 'vendorOrderIds', jsonb_build_array(gen_random_uuid(), gen_random_uuid(), gen_random_uuid())))`

	insertOld = `INSERT INTO outbox_events (event_type, aggregate_type, aggregate_id, payload_json)
VALUES ('order_created', 'checkout_group', gen_random_uuid(), ` + foreignEnvelope + `) RETURNING id::text`
)

// kept reports a migration that took much longer than foreseen. An estimate of less than a second is one
// of a second.
func kept(found migrate.Adoption, took time.Duration) error {
	if took.Seconds() > 3*max(found.Seconds, 1) {
		return fmt.Errorf("the migration took %s, more than three times what was foreseen", took)
	}
	return nil
}

// pathC makes a large table the outbox while an old producer goes on writing to it, and publishes
// what waits.
func (l *lab) pathC(ctx context.Context, s *site) {
	s.outboxctl(ctx, "migrate", "--to", "1")
	rig.Must(s.pool.Exec(ctx, packFinderz, pgx.QueryExecModeSimpleProtocol))
	rig.Must(s.pool.Exec(ctx, fillTable, l.rows, l.waiting))
	rig.Must(s.pool.Exec(ctx, `VACUUM ANALYZE outbox_events`))
	rows := rig.Must(s.pool.Query(ctx,
		`SELECT id::text FROM outbox_events WHERE published_at IS NULL`))
	s.written = rig.Must(pgx.CollectRows(rows, pgx.RowTo[string]))
	s.grant(ctx, "INSERT, SELECT (id) ON outbox_events")
	writer := s.writers(ctx, insertOld)
	var found migrate.Adoption
	rig.Check(json.Unmarshal([]byte(s.outboxctl(ctx, "migrate", "--dry-run", "-o", "json")), &found))
	log, size := s.measure(ctx)
	began := time.Now()
	s.outboxctl(ctx, "migrate")
	took := time.Since(began)
	logAfter, sizeAfter := s.measure(ctx)
	l.say("foreseen: %d wait; %.0f s, %d MB of log, %d MB of growth", found.Waiting, found.Seconds, found.WALBytes>>20, found.GrowthBytes>>20)
	l.say("migrate: %.1f s, %d MB of log (with the producer's); table and indexes %d MB, before %d MB",
		took.Seconds(), (logAfter-log)>>20, sizeAfter>>20, size>>20)
	s.outboxctl(ctx, "topic", "ensure")
	s.outboxctl(ctx, "publish", "--once")
	writer()
	s.outboxctl(ctx, "publish", "--once")
	s.drained(ctx)
	rig.Check(kept(found, took))
}

// measure returns the bytes of the server's log so far and of the table with its indexes.
func (s *site) measure(ctx context.Context) (log, size int64) {
	rig.Check(s.pool.QueryRow(ctx,
		`SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint, pg_total_relation_size('outbox_events')`).Scan(&log, &size))
	return log, size
}

const (
	oldTypes = "  order.ready: {topic: orders, aggregate: order}\n  order.gone: {topic: orders, aggregate: order}\n"
	// newTypes has one more, and takes data that the former version refuses.
	newTypes = "  order.ready: {topic: orders, aggregate: order}\n  order.gone: {topic: orders, aggregate: order, schema: any}\n  order.found: {topic: orders, aggregate: order}\n"

	emitReady = `SELECT id::text FROM outbox_emit('order.ready', 'order', '42', '{}')`
	emitGone  = `SELECT id::text FROM outbox_emit('order.gone', 'order', '42', '[1]')`
	emitFound = `SELECT id::text FROM outbox_emit('order.found', 'order', '42', '{}')`

	createOwn = `CREATE TABLE my_outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_type text NOT NULL, aggregate_id text NOT NULL,
		payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), delivered_at timestamptz)`
	insertOwn = `INSERT INTO my_outbox (event_type, aggregate_id, payload) VALUES ('order.ready', '42', '{}') RETURNING id::text`
	jobOwn    = `WITH taken AS (SELECT id FROM my_outbox WHERE delivered_at IS NULL LIMIT 100 FOR UPDATE SKIP LOCKED)
		UPDATE my_outbox AS m SET delivered_at = now() FROM taken WHERE m.id = taken.id RETURNING m.id::text`
)

// rolling replaces two publishers with another catalogue while events of both are written.
func (l *lab) rolling(ctx context.Context, s *site) {
	former, newer := s.catalogue("old", oldTypes), s.catalogue("new", newTypes)
	s.setUp(ctx, former)
	s.grant(ctx, "outbox_emitter")
	old := []*rig.Process{s.publish("--catalogue", former), s.publish("--catalogue", former)}
	first := s.writers(ctx, emitReady)
	rig.Pause(ctx, l.duration/4)
	s.outboxctl(ctx, "registry", "apply", newer)
	second := s.writers(ctx, emitGone, emitFound)
	for i, args := range [][]string{{"--catalogue", newer}, {}} {
		rig.Pause(ctx, l.duration/4)
		s.publish(args...)
		old[i].End(ctx, syscall.SIGTERM)
	}
	rig.Pause(ctx, l.duration/4)
	first()
	second()
	s.drained(ctx)
}

// job publishes the table that was there before, until the returned function is called and nothing
// is left in it.
func (s *site) job(ctx context.Context) (end func()) {
	ending, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		failed <- rig.Carry(func() {
			for {
				n := s.jobOnce(ctx)
				select {
				case <-ending:
					if n == 0 {
						return
					}
				default:
					rig.Pause(ctx, 20*time.Millisecond)
				}
			}
		})
	}()
	return func() { close(ending); rig.Check(<-failed) }
}

func (s *site) jobOnce(ctx context.Context) int {
	done := rig.Must(pgx.CollectRows(rig.Must(s.pool.Query(ctx, jobOwn)), pgx.RowTo[string]))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range done {
		s.jobbed[id]++
	}
	return len(done)
}

// setUp is what is done first, beside the application.
func (s *site) setUp(ctx context.Context, catalogue string) {
	s.outboxctl(ctx, "migrate", "--types", "text")
	s.outboxctl(ctx, "registry", "apply", catalogue)
	s.outboxctl(ctx, "topic", "ensure")
}

// pathA releases an application that emits, while the old release and its job go on for a while.
func (l *lab) pathA(ctx context.Context, s *site) {
	rig.Must(s.pool.Exec(ctx, createOwn))
	s.grant(ctx, "INSERT, SELECT (id) ON my_outbox")
	job, former := s.job(ctx), s.writers(ctx, insertOwn)
	s.setUp(ctx, s.catalogue("my", oldTypes))
	s.grant(ctx, "outbox_emitter")
	rig.Pause(ctx, l.duration/3)
	newer := s.writers(ctx, emitReady)
	s.publish()
	rig.Pause(ctx, l.duration/3)
	former()
	rig.Pause(ctx, l.duration/3)
	job()
	newer()
	s.drained(ctx)
}

// sql is a block of the page.
func (l *lab) sql(head string) string {
	_, rest, ok := strings.Cut(l.page, "```sql\n-- "+head+"\n")
	text, _, _ := strings.Cut(rest, "```")
	if !ok {
		rig.Check(errors.New("the page has no SQL for " + head))
	}
	return text
}

// pathB switches the page's trigger on, off and on beside the application and its job, and then
// moves over what was written while neither ran.
func (l *lab) pathB(ctx context.Context, s *site) {
	trigger, move := l.sql("path B"), l.sql("path B, what waits")
	rig.Must(s.pool.Exec(ctx, createOwn))
	s.grant(ctx, "INSERT, SELECT (id) ON my_outbox")
	job, writers := s.job(ctx), s.writers(ctx, insertOwn, insertOwn, insertOwn)
	s.setUp(ctx, s.catalogue("my", oldTypes))
	s.publish()
	for _, statement := range []string{trigger,
		"ALTER TABLE my_outbox DISABLE TRIGGER my_outbox_relay", "ALTER TABLE my_outbox ENABLE TRIGGER my_outbox_relay"} {
		rig.Must(s.pool.Exec(ctx, statement))
		rig.Pause(ctx, l.duration/3)
	}
	writers()
	job()
	rig.Must(s.pool.Exec(ctx, "ALTER TABLE my_outbox DISABLE TRIGGER my_outbox_relay"))
	late := s.writers(ctx, insertOwn)
	rig.Pause(ctx, l.duration/6)
	late()
	moved := int64(0)
	for n := int64(1); n > 0; moved += n {
		n = rig.Must(s.pool.Exec(ctx, move)).RowsAffected()
	}
	l.say("%d events that waited were moved over", moved)
	s.drained(ctx)
}
