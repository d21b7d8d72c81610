package migrate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
)

// migrated gives a database with the whole schema, built by the runner under test.
func migrated(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := emptyDB(t)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	return pool
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

func queryOne[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err, sql)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err, sql)
	return value
}

func queryAll(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err, sql)
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err, sql)
	return values
}

// eventually waits until the query says true; what is waited for is another backend's progress, which sends no signal.
func eventually(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var yes bool
		err := pool.QueryRow(context.WithoutCancel(t.Context()), sql, args...).Scan(&yes)
		return err == nil && yes
	}, time.Minute, 5*time.Millisecond, sql)
}

// state is the SQLSTATE of an error, empty when there is none.
func state(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg, "not an error of the database: %v", err)
	return pg.Code
}

// insert is the statement of a producer that knows only the locked columns.
const insert = `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
	VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}')`

// catalogue describes everything in the schema, one line per fact, in a fixed order.
func catalogue(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return queryAll(t, pool, `
WITH ns AS (SELECT quote_ident(current_schema())::regnamespace::oid AS oid),
rel AS (SELECT c.* FROM pg_class c, ns WHERE c.relnamespace = ns.oid)
SELECT line FROM (
    SELECT format('relation %s %s options %s acl %s', relkind, relname, reloptions,
               coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))) AS line FROM rel WHERE relkind <> 'i'
    UNION ALL
    SELECT format('column %s.%s %s not null %s identity %s default %s acl %s position %s', r.relname, a.attname,
               format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, pg_get_expr(d.adbin, d.adrelid), nullif(a.attacl, '{}'),
               row_number() OVER (PARTITION BY r.oid ORDER BY a.attnum))
      FROM rel r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
     WHERE r.relkind IN ('r', 'v')
    UNION ALL
    SELECT format('constraint %s %s valid %s', conname, pg_get_constraintdef(c.oid), convalidated)
      FROM pg_constraint c JOIN rel r ON r.oid = c.conrelid
    UNION ALL
    SELECT format('index %s valid %s', pg_get_indexdef(i.indexrelid), i.indisvalid) FROM pg_index i JOIN rel r ON r.oid = i.indrelid
    UNION ALL
    SELECT format('trigger %s', pg_get_triggerdef(g.oid)) FROM pg_trigger g JOIN rel r ON r.oid = g.tgrelid WHERE NOT tgisinternal
    UNION ALL
    SELECT format('function %s acl %s', pg_get_functiondef(p.oid), coalesce(p.proacl, acldefault('f', p.proowner))) FROM pg_proc p, ns WHERE p.pronamespace = ns.oid
    UNION ALL
    SELECT format('view %s', pg_get_viewdef(oid)) FROM rel WHERE relkind = 'v'
    UNION ALL
    SELECT format('enum %s %s', t.typname, string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder))
      FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN ns ON ns.oid = t.typnamespace GROUP BY t.typname
) AS facts ORDER BY line COLLATE "C"`)
}

// differ lists the facts that only one of two catalogues has.
func differ(before, after []string) []string {
	var out []string
	for _, fact := range before {
		if !slices.Contains(after, fact) {
			out = append(out, "- "+fact)
		}
	}
	for _, fact := range after {
		if !slices.Contains(before, fact) {
			out = append(out, "+ "+fact)
		}
	}
	return out
}

// pgIdent makes a role name of this test's own: roles belong to the whole cluster.
func pgIdent(t *testing.T, word string) string {
	t.Helper()
	return word + "_" + strings.ReplaceAll(uuid.NewString(), "-", "")
}

// dropRole ends a role that owns nothing any more: its databases were made after it and are dropped before.
func dropRole(t *testing.T, admin *pgxpool.Pool, role string) {
	t.Helper()
	_, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role)
	require.NoError(t, err)
}

// openPool opens a second pool, closed when the test ends.
func openPool(t *testing.T, cfg *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// refusal holds an error to its kind, its words and its hint.
func refusal(t *testing.T, err error, kind fault.Kind, says, hint string) {
	t.Helper()
	require.EqualError(t, err, says)
	require.Equal(t, hint, fault.HintOf(err))
	got, _ := fault.KindOf(err)
	require.Equal(t, kind, got)
}
