package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/adoption"
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

// kept reports a migration that took much longer than planned. A plan of less than a second is one
// of a second.
func kept(plan adoption.Adoption, took time.Duration) error {
	if took.Seconds() > 3*max(plan.Seconds, 1) {
		return fmt.Errorf("the migration took %s, more than three times what the plan said", took)
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
	var plan adoption.Adoption
	rig.Check(json.Unmarshal([]byte(s.outboxctl(ctx, "migrate", "--plan", "-o", "json")), &plan))
	log, size := s.measure(ctx)
	began := time.Now()
	s.outboxctl(ctx, "migrate")
	took := time.Since(began)
	logAfter, sizeAfter := s.measure(ctx)
	l.say("plan: %d wait, %d would be published, %d with another eventId; %.0f s, %d MB of log, %d MB of growth",
		plan.Waiting, plan.Backlog.Publish, plan.Backlog.OtherEventID, plan.Seconds, plan.WALBytes>>20, plan.GrowthBytes>>20)
	l.say("migrate: %.1f s, %d MB of log (with the producer's); table and indexes %d MB, before %d MB",
		took.Seconds(), (logAfter-log)>>20, sizeAfter>>20, size>>20)
	s.outboxctl(ctx, "topic", "ensure")
	s.outboxctl(ctx, "publish", "--once")
	writer()
	s.outboxctl(ctx, "publish", "--once")
	s.drained(ctx)
	rig.Check(kept(plan, took))
}

// measure returns the bytes of the server's log so far and of the table with its indexes.
func (s *site) measure(ctx context.Context) (log, size int64) {
	rig.Check(s.pool.QueryRow(ctx,
		`SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint, pg_total_relation_size('outbox_events')`).Scan(&log, &size))
	return log, size
}
