package bench

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/emit/builtin"
	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// fillDeadSQL writes dead events with their open dead letters: forty causes over ten days.
const fillDeadSQL = `
WITH dead AS (
    INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, dead_at, attempt_count, last_error, namespace)
    SELECT id, 'order_created', 'checkout_group', id, jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', '2026-01-01T00:00:00Z', 'data', '{}'::jsonb),
           at - interval '1 second', at, 10, 'the broker refused the message: code ' || i % 40, 'default'
      FROM (SELECT outbox_uuid_v7() AS id, i, now() - random() * interval '10 days' AS at FROM generate_series(1, $1::int) AS i) AS ids
    RETURNING *)
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint, event_created_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, (ARRAY['max_attempts', 'invalid_payload', 'rejected_by_broker'])[1 + seq % 3]::outbox_dlq_reason,
       last_error, 10, dead_at, 'domain', md5(last_error), created_at
  FROM dead`

// tenDays is over which time the rows of a page were published or died: an outbox keeps what it published for weeks.
const tenDays = 10 * 24 * time.Hour

// fillForPage writes rows behind, of which some are dead.
func fillForPage(ctx context.Context, r *bench.Trial, rows, dead int) {
	rig.Check(r.Fill(ctx, rows-dead, bench.Filling{EventType: builtin.TypeOrderCreated, Published: true, Over: tenDays, Namespace: "default"}))
	for done := 0; done < dead; {
		size := min(bench.FillBatch, dead-done)
		rig.Must(r.DB.Pool.Exec(ctx, fillDeadSQL, size))
		done += size
		r.Params.Progress("filled %d of %d dead letters", done, dead)
	}
	for _, table := range []string{"outbox_events", "outbox_dlq"} {
		rig.Must(r.DB.Pool.Exec(ctx, "VACUUM ANALYZE "+table))
	}
}
