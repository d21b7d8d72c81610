package dispatch

import (
	"context"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// fill inserts n published or waiting rows.
const fill = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', CASE WHEN $2 THEN now() END
  FROM generate_series(1, $1::int)`

// Statistics are always those of another moment; whatever they say, a claim walks the claim index in order and a settle
// goes to its rows by primary key.
func TestPlansSurviveStaleStatistics(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, conn *pgx.Conn){
		"never analyzed": func(t *testing.T, conn *pgx.Conn) {
			exec(t, conn, fill, 10_000, false)
		},
		"analyzed while nothing waited": func(t *testing.T, conn *pgx.Conn) {
			exec(t, conn, fill, 10_000, true)
			exec(t, conn, `ANALYZE outbox_events`)
			exec(t, conn, fill, 10_000, false)
		},
		"analyzed in the middle of a backlog": func(t *testing.T, conn *pgx.Conn) {
			exec(t, conn, fill, 10_000, false)
			exec(t, conn, `ANALYZE outbox_events`)
			exec(t, conn, `UPDATE outbox_events SET published_at = now()`)
		},
		// A publisher keeps the plans of its first claims until the next ANALYZE, whatever comes meanwhile.
		"analyzed with one row": func(t *testing.T, conn *pgx.Conn) {
			exec(t, conn, fill, 1, false)
			exec(t, conn, `ANALYZE outbox_events`)
		},
		"analyzed when the last row was published": func(t *testing.T, conn *pgx.Conn) {
			exec(t, conn, fill, 1, true)
			exec(t, conn, `VACUUM ANALYZE outbox_events`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			conn, err := pgx.Connect(t.Context(), db.URL)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
			exec(t, conn, `ALTER TABLE outbox_events SET (autovacuum_enabled = off)`)
			prepare(t, conn)
			owner := uuid.NewString()
			var ids []string
			var numbers []int64
			var charges []int32
			for range 1000 {
				ids = append(ids, uuid.NewString())
				numbers, charges = append(numbers, 0), append(charges, 0)
			}

			claim := explain(t, conn, lockSQL, int64(0), "", "", []string{}, []string{}, int64(math.MaxInt64), 1000)
			require.Contains(t, claim, "Index Scan using outbox_events_seq_claim_idx")
			require.Regexp(t, `Index Cond: \(\(seq >= gaps.first\) AND \(seq < gaps.behind\)`, claim)
			require.Equal(t, 1, strings.Count(claim, "Sort  ("), claim)
			require.Regexp(t, `WindowAgg[^\n]*\n(\s*Window: [^\n]*\n)?\s*->  Sort`, claim, "leases are sorted, not events")
			for _, read := range []string{explain(t, conn, readSQL, int64(1), 1000, int64(1<<20), int64(1<<20)), explain(t, conn, rowsSQL, int64(1))} {
				require.Contains(t, read, "using outbox_leases_pkey")
				require.Contains(t, read, "Index Scan using outbox_events_seq_claim_idx")
				require.NotContains(t, read, "Sort")
			}
			expired := explain(t, conn, expiredSQL)
			require.Contains(t, expired, "using outbox_events_seq_claim_idx")
			require.Equal(t, 2, strings.Count(expired, "using outbox_events_pkey"), expired)
			require.Len(t, regexp.MustCompile(`using outbox_events_pkey[^\n]*\n\s*Index Cond: `).FindAllString(expired, -1), 2,
				"without the condition it goes over all rows: %s", expired)
			require.NotContains(t, expired, "Seq Scan on outbox_events")
			require.NotContains(t, expired, "Anti Join", "no row is compared with every other")
			sweep := explain(t, conn, lockOrderedSQL, int64(0), "", "", []string{}, []string{}, int64(math.MaxInt64), 1000,
				1000, 100, true, []string{}, []string{})
			require.Contains(t, sweep, "using outbox_events_ordered_claim_idx")
			require.Contains(t, sweep, "TID Cond: (ctid = r.version)", "no row is compared with every other")
			require.Regexp(t, `(?s)Subquery Scan on d.*Limit.*using outbox_events_turn_idx[^\n]*\n\s*Index Cond: \(ordering_key = d.ordering_key\)`, sweep,
				"of what waits behind a dead event only the first is read")
			last := explain(t, conn, outbox.LastSeqSQL)
			require.Contains(t, last, "Index Only Scan Backward using outbox_events_seq_claim_idx")
			for _, settle := range []string{
				explain(t, conn, publishedSQL, owner, numbers[:1], ids, numbers, numbers, ids),
				explain(t, conn, failedSQL, owner, numbers[:1], ids, numbers, numbers, ids, numbers, charges),
				explain(t, conn, deadSQL, owner, numbers[:1], ids, numbers, numbers, ids, ids, ids, ids, charges),
			} {
				require.Contains(t, settle, "Function Scan on v")
				require.Contains(t, settle, "Index Scan using outbox_events_pkey")
				require.Contains(t, settle, "Index Cond: (id = v.id)")
			}
		})
	}
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// explain plans a statement as the store would run it.
func explain(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), steerPlanner)
	require.NoError(t, err)
	rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}
