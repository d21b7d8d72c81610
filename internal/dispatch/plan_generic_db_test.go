package dispatch

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A plan that is made once for all values must be as good as one made for each: connections keep prepared statements for
// hours, and PostgreSQL turns to such a plan after five executions. A comparison with event_type::text, say, would read
// a whole index then, on enums only.
func TestGenericPlansKeepTheirIndexes(t *testing.T) {
	t.Parallel()
	for _, shape := range outboxtest.Shapes()[:2] { // enum and text
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			db := outboxtest.ShapedDB(t, shape)
			config, err := pgx.ParseConfig(db.URL)
			require.NoError(t, err)
			var notices []string
			config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }
			conn, err := pgx.ConnectConfig(t.Context(), config)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
			exec(t, conn, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dedupe_key)
				SELECT i, outbox_event_type('order_created'), outbox_aggregate_type('checkout_group'), outbox_aggregate_id(i::text), '{}', i::text
				  FROM (SELECT gen_random_uuid() AS i FROM generate_series(1, 10000)) AS ids`)
			exec(t, conn, `INSERT INTO outbox_event_types (event_type, aggregate_type, topic, digest)
				SELECT t, 'checkout_group', 'domain', 'd' FROM (SELECT 'type.' || n FROM generate_series(1, 500) AS n UNION ALL SELECT 'order_created') AS all_types(t)`)
			exec(t, conn, `ANALYZE outbox_events, outbox_event_types`)
			exec(t, conn, `SET plan_cache_mode = force_generic_plan`)
			exec(t, conn, `SELECT set_config(name, '{}', false) FROM unnest($1::text[]) AS name`, []string{lockedRows, lockedRuns})

			owner, id, number := uuid.NewString(), []string{uuid.NewString()}, []int64{1}
			claim := generic(t, conn, lockSQL, int64(0), "", "", []string{"ad_paused"}, []string{"order_created"}, int64(math.MaxInt64), 1000)
			require.Contains(t, claim, "Index Scan using outbox_events_seq_claim_idx")
			require.NotContains(t, claim, "Seq Scan on outbox_events")
			runs := (&SQLStore{}).lockRuns(ClaimParams{Limit: 1000, Window: 4000}, 250, nil)
			for _, other := range []string{
				generic(t, conn, runs.sql, runs.args...), generic(t, conn, expiredSQL),
				generic(t, conn, leaseSQL, owner, int64(1), int64(1)), generic(t, conn, leaseOrderedSQL, owner, int64(1), int64(1)),
				generic(t, conn, shrinkSQL, owner, number, number, number),
			} {
				require.NotContains(t, other, "Seq Scan on outbox_events")
			}
			read := generic(t, conn, readSQL, int64(1), 1000, int64(1<<20), int64(1<<20))
			require.Contains(t, read, "Index Scan using outbox_events_seq_claim_idx")
			for _, settle := range []string{
				generic(t, conn, publishedSQL, owner, number, id, number, number, id),
				generic(t, conn, failedSQL, owner, number, id, number, number, id, number, []int32{0}),
				generic(t, conn, deadSQL, owner, number, id, number, number, id, id, id, id, []int32{0}),
			} {
				require.Contains(t, settle, "Index Scan using outbox_events_pkey")
				require.Contains(t, settle, "Index Cond: (id = v.id)")
			}

			// What outbox_emit does inside is told by PostgreSQL's own module, statement by statement. The seventh call runs
			// on the plans that stay.
			exec(t, conn, `LOAD 'auto_explain'`)
			exec(t, conn, `SELECT set_config(name, value, false) FROM (VALUES ('auto_explain.log_min_duration', '0'), ('auto_explain.log_level', 'notice'),
				('auto_explain.log_nested_statements', 'on')) AS s(name, value)`)
			for n := range 7 {
				notices = nil
				exec(t, conn, `SELECT id FROM outbox_emit('order_created', 'checkout_group', $1::text, '{}', dedupe_key => 'taken')`, fmt.Sprintf("018f3f6e-0000-7000-8000-%012d", n))
			}
			plans := strings.Join(notices, "\n")
			require.Contains(t, plans, "outbox_event_types_pkey", "the type is looked up by its key")
			require.Contains(t, plans, "outbox_events_dedupe_idx", "and the event that has the dedupe key by its index")
			require.NotContains(t, plans, "Seq Scan on outbox_events")
			require.NotRegexp(t, `Seq Scan on outbox_event_types c\b`, plans)
		})
	}
}

// generic plans a statement for any values.
func generic(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), steerPlanner)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "PREPARE hot AS "+sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	defer func() {
		_, err := tx.Exec(t.Context(), "DEALLOCATE hot")
		require.NoError(t, err)
	}()
	values := make([]string, len(args))
	for i := range args {
		values[i] = fmt.Sprint("$", i+1)
	}
	rows, err := tx.Query(t.Context(), strings.ReplaceAll("EXPLAIN EXECUTE hot("+strings.Join(values, ", ")+")", "()", ""), append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}
