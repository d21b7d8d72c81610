package migrate_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

const (
	refusedUpdate   = "OX100"
	refusedDelete   = "OX101"
	refusedTruncate = "OX102"
)

func TestGuards(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, insert)
	exec(t, pool, `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
		SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'x', 10 FROM outbox_events`)
	exec(t, pool, `INSERT INTO outbox_audit (actor, action) VALUES ('me', 'test')`)

	immutable := map[string][]string{
		"outbox_events": {"id", "event_type", "aggregate_type", "aggregate_id", "payload_json", "created_at",
			"namespace", "tenant_id", "dedupe_key", "max_attempts", "headers", "ordering_key", "erased_at"},
		"outbox_dlq": {"id", "event_id", "event_type", "aggregate_type", "aggregate_id", "payload_json", "headers", "error_reason",
			"error_message", "attempt_count", "failed_at", "namespace", "tenant_id", "topic", "fingerprint", "event_created_at", "erased_at"},
		"outbox_audit": {"at", "actor", "db_user", "action", "note", "detail", "affected"},
	}
	mutable := map[string][]string{
		"outbox_events": {"published_at", "attempt_count", "last_error", "next_attempt_at", "dead_at",
			"broker_message_id", "passed_at", "deliver_at"},
		"outbox_dlq": {"state", "state_changed_at", "audit_id", "corrected_by"},
	}
	for table, names := range immutable {
		for _, name := range names {
			_, err := pool.Exec(t.Context(), "UPDATE "+table+" SET "+name+" = "+name)
			require.Equal(t, refusedUpdate, state(t, err), "%s.%s", table, name)
		}
	}
	for table, names := range mutable {
		for _, name := range names {
			exec(t, pool, "UPDATE "+table+" SET "+name+" = "+name)
		}
	}
	// Every column is in one of the lists, so a new one cannot be forgotten.
	for _, table := range []string{"outbox_events", "outbox_dlq", "outbox_audit"} {
		listed := append(append([]string{}, immutable[table]...), mutable[table]...)
		require.ElementsMatch(t, queryAll(t, pool, `
			SELECT column_name::text FROM information_schema.columns
			 WHERE table_name = $1 AND table_schema = current_schema() AND is_identity = 'NO'`, table), listed)
	}
	_, err := pool.Exec(t.Context(), "UPDATE outbox_events SET seq = DEFAULT")
	require.Equal(t, refusedUpdate, state(t, err), "a new seq would reorder events")

	for _, table := range []string{"outbox_events", "outbox_dlq", "outbox_audit"} {
		_, err := pool.Exec(t.Context(), "DELETE FROM "+table)
		require.Equal(t, refusedDelete, state(t, err), table)
		_, err = pool.Exec(t.Context(), "TRUNCATE "+table)
		require.Equal(t, refusedTruncate, state(t, err), table)
	}
	for _, finished := range []string{"published_at = now()", "dead_at = now()"} {
		exec(t, pool, insert)
		exec(t, pool, "UPDATE outbox_events SET "+finished)
		exec(t, pool, "DELETE FROM outbox_events")
	}
	// A cleanup counts in its row as it goes, and only upwards.
	exec(t, pool, `INSERT INTO outbox_audit (actor, action, affected) VALUES ('me', 'cleanup', 5)`)
	exec(t, pool, `UPDATE outbox_audit SET affected = 6, detail = '{}' WHERE action = 'cleanup'`)
	for _, set := range []string{"affected = 5", "note = 'x'", "actor = 'x'", "action = 'x'", "at = at"} {
		_, err = pool.Exec(t.Context(), `UPDATE outbox_audit SET `+set+` WHERE action = 'cleanup'`)
		require.Equal(t, refusedUpdate, state(t, err), set)
	}
	exec(t, pool, "UPDATE outbox_dlq SET state = 'discarded'")
	exec(t, pool, "DELETE FROM outbox_dlq")
	_, err = pool.Exec(t.Context(), "UPDATE outbox_dlq SET state = 'gone'")
	require.NoError(t, err, "no row, no check")
}

// A row must not be a hundred times larger in the publisher's memory than in the table.
func TestInflatedRowsAreRefused(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, `CREATE TABLE compressed AS SELECT jsonb_build_object('x', repeat('x', 1000000)) AS p`)
	const sql = `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, headers)
		SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), `
	for name, tc := range map[string]struct{ payload, headers, column string }{
		"large number":       {`'{"n": 1e131071}'`, `NULL`, "payload_json"},
		"small number":       {`'[1e-16383]'`, `NULL`, "payload_json"},
		"long zero":          {`'[0e-16383]'`, `NULL`, "payload_json"},
		"many numbers":       {`to_jsonb(array_fill(1e300::numeric, '{1000}'))`, `NULL`, "payload_json"},
		"number in headers":  {`'{}'`, `'{"n": 1e131071}'`, "headers"},
		"largest double":     {`'[1.7976931348623157e308, 5e-324]'`, `NULL`, ""},
		"digits as they are": {`('[' || repeat('9', 100000) || ']')::jsonb`, `NULL`, ""},
		"escapes":            {`to_jsonb(repeat(chr(1), 100000))`, `'{"a": "b"}'`, ""},
		"compressed":         {`p`, `NULL FROM compressed`, ""},
	} {
		_, err := pool.Exec(t.Context(), sql+tc.payload+", "+tc.headers)
		if tc.column == "" {
			require.NoError(t, err, name)
			continue
		}
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, name)
		require.Equal(t, []string{"OX104", tc.column}, []string{pg.Code, pg.ColumnName}, name)
	}
	_, err := pool.Exec(t.Context(), `SELECT outbox_emit('order_created', NULL, gen_random_uuid(), '[1e131071]')`)
	require.Equal(t, "OX104", state(t, err))
}

func TestTenantRuleIsACheck(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	const sql = `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, tenant_id, dedupe_key)
		VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', $1::text::uuid, $2)`
	const tenant = "0192d3a0-0000-7000-8000-000000000001"
	for _, tc := range []struct {
		tenant, key *string
		want        string
	}{
		{nil, nil, ""},
		{ptr(tenant), nil, ""},
		{nil, ptr("k"), ""},
		{ptr(tenant), ptr(tenant + "/k"), ""},
		{ptr(tenant), ptr("k"), "23514"},
		{ptr(tenant), ptr(tenant), "23514"},
		{ptr(tenant), ptr("x" + tenant + "/k"), "23514"},
	} {
		_, err := pool.Exec(t.Context(), sql, tc.tenant, tc.key)
		require.Equal(t, tc.want, state(t, err), "%v %v", tc.tenant, tc.key)
	}
}

func ptr[T any](v T) *T { return &v }
