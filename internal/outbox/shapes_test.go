package outbox

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// explaining is a database that keeps the plan of every query instead of its answer.
type explaining struct {
	Database
	plan string
}

func (e *explaining) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := e.Database.Query(ctx, "EXPLAIN "+sql, args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	e.plan = strings.Join(lines, "\n")
	if err != nil {
		return nil, err
	}
	return e.Database.Query(ctx, "SELECT NULL WHERE false")
}

// Whatever the types of the columns, an aggregate is found by the index, with or without its type, and a filter finds what
// it should.
func TestAggregatesAreFoundByTheirIndexInEveryShape(t *testing.T) {
	t.Parallel()
	for _, shape := range outboxtest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.ShapedDB(t, shape).Pool
			_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at, deliver_at, next_attempt_at)
SELECT outbox_uuid_v7(), outbox_event_type((ARRAY['ad_paused', 'media_uploaded', 'license_status_changed'])[1 + i % 3]),
       outbox_aggregate_type((ARRAY['ad', 'media', 'license'])[1 + i % 3]),
       outbox_aggregate_id(CASE WHEN $1 THEN (1000 + i / 2)::text ELSE '018f3f6e-0000-7000-8000-' || lpad((i / 2)::text, 12, '0') END),
       '{"data": {}}', now() - i * interval '1 second', CASE WHEN i % 12 < 6 THEN now() END, CASE i WHEN 23 THEN now() + interval '1 hour' END, CASE i WHEN 23 THEN now() + interval '1 hour' ELSE now() END
  FROM generate_series(1, 6000) AS i`, shape.Integers())
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), "ANALYZE outbox_events")
			require.NoError(t, err)
			id := shape.AggregateID(7) // rows 14 and 15: license and ad, both published; those of 11 are not, and 23 is scheduled
			both := []string{"outbox_events_open_aggregate_idx", "outbox_events_past_aggregate_idx"}
			for name, tc := range map[string]struct {
				filter Filter
				found  int
				index  []string
			}{
				"aggregate":       {Filter{AggregateIDs: []string{id}}, 2, both},
				"type/id":         {Filter{AggregateType: "ad", AggregateIDs: []string{id}}, 1, both},
				"of another type": {Filter{AggregateType: "media", AggregateIDs: []string{id}}, 0, both},
				"two":             {Filter{AggregateIDs: []string{id, shape.AggregateID(11)}}, 4, both},
				"event type":      {Filter{AggregateIDs: []string{id}, Types: []string{"ad_paused", "order_created"}}, 1, both},
				"published":       {Filter{Status: StatusPublished, AggregateIDs: []string{id, shape.AggregateID(11)}}, 2, both[1:]},
				"pending":         {Filter{Status: StatusPending, AggregateIDs: []string{id, shape.AggregateID(11)}}, 1, both[:1]},
				"scheduled":       {Filter{Status: StatusScheduled, AggregateIDs: []string{id, shape.AggregateID(11)}}, 1, both[:1]},
				"by type":         {Filter{Status: StatusPending, Types: []string{"media_uploaded"}}, 1000, []string{"outbox_events_seq_claim_idx"}},
				"aggregate type":  {Filter{AggregateType: "license"}, 2000, []string{"outbox_events_pkey"}},
			} {
				scan, err := (&Outbox{DB: pool}).ScanEvents(tc.filter, NewestFirst, false)
				require.NoError(t, err, name)
				events, err := scan.List(t.Context(), 10_000)
				require.NoError(t, err, name)
				require.Len(t, events, tc.found, name)

				db := &explaining{Database: pool}
				scan, err = (&Outbox{DB: db}).ScanEvents(tc.filter, NewestFirst, false)
				require.NoError(t, err, name)
				_, err = scan.Next(t.Context(), 50)
				require.NoError(t, err, name)
				for _, index := range tc.index {
					require.Contains(t, db.plan, index, name)
				}
				require.NotContains(t, db.plan, "Seq Scan on outbox_events", name)
				if len(tc.filter.AggregateIDs) > 0 {
					require.Regexp(t, `Index Cond: .*aggregate_id(\)::text)? = ANY`, db.plan, name)
				}
				_, err = (&Outbox{DB: db}).Neighbours(t.Context(), "ad", id, "018f3f6e-0000-7000-8000-00000000000a", base(), 3)
				require.NoError(t, err)
				require.Regexp(t, `Index Cond: .*aggregate_type(\)::text)? = .* AND .*aggregate_id(\)::text)? = `, db.plan)
			}
			near, err := (&Outbox{DB: pool}).Neighbours(t.Context(), "ad", id, "018f3f6e-0000-7000-8000-00000000000a", base(), 3)
			require.NoError(t, err)
			require.Len(t, near, 1)
			require.Equal(t, id, near[0].AggregateID)

			scan, err := (&Outbox{DB: pool}).ScanEvents(Filter{AggregateIDs: []string{"odd"}}, NewestFirst, false)
			require.NoError(t, err)
			found, err := scan.Next(t.Context(), 1)
			var pg *pgconn.PgError
			if shape.Types == "enum" || shape.Integers() {
				require.ErrorAs(t, err, &pg)
				require.Equal(t, "22P02", pg.Code)
			} else {
				require.NoError(t, err)
				require.Empty(t, found)
			}
		})
	}
}
