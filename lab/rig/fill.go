package rig

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// fillBatch is how many rows one statement writes.
const fillBatch = 100_000

// Fill writes rows like an event without a round trip each, and says how far it is. They are valid:
// a publisher that claims one publishes it. Columns have SQL expressions for further columns, in
// which n is the row's number, from 0 on.
func Fill(
	ctx context.Context, pool *pgxpool.Pool, rows int, like emit.Event, columns map[string]string, say func(string, ...any),
) {
	aggregate, _, _ := registry.New().Resolve(like.Type)
	names, values := "", ""
	if columns["aggregate_id"] == "" {
		names, values = ", aggregate_id", ", ids.id"
	}
	for name, value := range columns {
		names, values = names+", "+name, values+", "+value
	}
	data := string(Must(json.Marshal(like.Data)))
	for done := 0; done < rows; {
		size := min(fillBatch, rows-done)
		// The record has the columns' types, enums or text.
		Must(pool.Exec(ctx, `
INSERT INTO outbox_events (id, event_type, aggregate_type, payload_json`+names+`)
SELECT ids.id, kind.event_type, kind.aggregate_type,
       jsonb_build_object('version', 1, 'eventId', ids.id, 'occurredAt', '2026-01-01T00:00:00Z', 'data', $3::text::jsonb)`+values+`
  FROM (SELECT n, outbox_uuid_v7() AS id FROM generate_series($4::int, $4::int + $5::int - 1) AS n) AS ids,
       (SELECT event_type, aggregate_type
          FROM jsonb_populate_record(NULL::outbox_events, jsonb_build_object('event_type', $1::text, 'aggregate_type', $2::text))) AS kind
 ORDER BY n`, like.Type, cmp.Or(like.AggregateType, aggregate), data, done, size))
		if done += size; done < rows {
			say("filled %d of %d rows", done, rows)
		}
	}
}
