package doctor

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// Doctor looks at the newest events of a large table without reading all of it.
func TestTheNewestEventsAreReadFromIndexes(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
SELECT outbox_uuid_v7(), 'order_canceled', 'vendor_order', gen_random_uuid(), jsonb_build_object('eventId', gen_random_uuid()),
       CASE WHEN i <= 17000 THEN now() - i * interval '1 second' END
  FROM generate_series(1, 20000) AS i`)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), "ANALYZE outbox_events")
	require.NoError(t, err)
	rows, err := db.Pool.Query(t.Context(), "EXPLAIN "+otherIDs)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan := strings.Join(lines, "\n")
	require.Contains(t, plan, "outbox_events_seq_claim_idx")
	require.Contains(t, plan, "outbox_events_published_at_idx")
	require.NotContains(t, plan, "Seq Scan")
	var n int
	require.NoError(t, db.Pool.QueryRow(t.Context(), otherIDs).Scan(&n))
	require.Equal(t, 1000, n)
}
