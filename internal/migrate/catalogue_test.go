package migrate_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func record(t *testing.T, pool *pgxpool.Pool, namespace, eventType, aggregate, envelope string) {
	t.Helper()
	exec(t, pool, `INSERT INTO outbox_event_types (namespace, event_type, aggregate_type, topic, envelope, digest)
		VALUES ($1, $2, $3, 'shop', $4, 'd')`, namespace, eventType, aggregate, envelope)
}

// A database that recorded nothing knows the built-in types; what it records replaces them all.
func TestEmitFunctionFollowsTheRecordedCatalogue(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	require.Equal(t, int64(0), queryOne[int64](t, pool, `SELECT revision FROM outbox_catalogue`))
	_, err := emit(t, pool, `'order_created', NULL, gen_random_uuid(), '{}'`)
	require.NoError(t, err)

	record(t, pool, "*", "ad_paused", "store", "standard")
	record(t, pool, "press", "ad_paused", "media", "standard")
	record(t, pool, "press", "ad_created", "ad", "standard")
	for name, tc := range map[string]struct{ arguments, state, aggregate string }{
		"built in only":            {`'order_created', NULL, gen_random_uuid(), '{}'`, "OX001", ""},
		"its aggregate":            {`'ad_paused', NULL, gen_random_uuid(), '{}'`, allowed, "store"},
		"the built-in aggregate":   {`'ad_paused', 'ad', gen_random_uuid(), '{}'`, "OX002", ""},
		"of the namespace":         {`'ad_paused', 'media', gen_random_uuid(), '{}', namespace => 'press'`, allowed, "media"},
		"of another namespace":     {`'ad_paused', 'store', gen_random_uuid(), '{}', namespace => 'shop'`, allowed, "store"},
		"no namespace is default":  {`'ad_paused', 'store', gen_random_uuid(), '{}', namespace => NULL`, allowed, "store"},
		"only in its namespace":    {`'ad_created', NULL, gen_random_uuid(), '{}', namespace => 'press'`, allowed, "ad"},
		"not in another":           {`'ad_created', NULL, gen_random_uuid(), '{}'`, "OX001", ""},
		"the star is no namespace": {`'ad_created', NULL, gen_random_uuid(), '{}', namespace => '*'`, "OX001", ""},
		"an unknown enum value":    {`'ad_expired', NULL, gen_random_uuid(), '{}', namespace => 'press'`, "OX001", ""},
	} {
		e, err := emit(t, pool, tc.arguments)
		if tc.state != allowed {
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg, name)
			require.Equal(t, tc.state, pg.Code, name)
			if tc.state == "OX001" {
				require.Contains(t, pg.Hint, "outboxctl registry apply", name)
			}
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.aggregate, queryOne[string](t, pool, `SELECT aggregate_type::text FROM outbox_events WHERE id = $1`, e.ID), name)
	}
	_, err = pool.Exec(t.Context(), `SELECT outbox_emit_many($1)`, `[{"id": "0192d3a0-0000-7000-8000-000000000001", "event_type": "order_created"}]`)
	require.Equal(t, "OX001", state(t, err))
	require.ErrorContains(t, err, "event 1: event_type: unknown event type 'order_created'")
}

// The payload of a type without an envelope is its data, whatever names that uses.
func TestEmitFunctionStoresDataWithoutAnEnvelope(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	record(t, pool, "*", "ad_paused", "ad", "none")
	for _, data := range []string{`{"actor": "me", "eventId": 1, "version": 7}`, `[1, 2]`, `"text"`, `0`, `{}`} {
		e, err := emit(t, pool, `'ad_paused', NULL, gen_random_uuid(), $1::text::jsonb`, data)
		require.NoError(t, err, data)
		require.Equal(t, data, queryOne[string](t, pool, `SELECT payload_json::text FROM outbox_events WHERE id = $1`, e.ID))
	}
	for arguments, want := range map[string][]string{
		`'ad_paused', NULL, gen_random_uuid(), NULL`:                                   {"OX003", "data"},
		`'ad_paused', NULL, gen_random_uuid(), 'null'`:                                 {"OX003", "data"},
		`'ad_paused', NULL, gen_random_uuid(), '{}', occurred_at => now()`:             {"OX004", "occurred_at"},
		`'ad_paused', NULL, gen_random_uuid(), '{}', actor => '{"userId": "u"}'`:       {"OX004", "actor"},
		`'ad_paused', NULL, gen_random_uuid(), to_jsonb(repeat('x', 10000000))`:        {"OX006", "data"},
		`'ad_paused', NULL, gen_random_uuid(), '{}', headers => '{"event_type": "x"}'`: {"OX004", "headers"},
	} {
		_, err := emit(t, pool, arguments)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, arguments)
		require.Equal(t, want, []string{pg.Code, pg.ColumnName}, arguments)
	}
	require.Equal(t, int64(1), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_emit_many(
		'[{"id": "0192d3a0-0000-7000-8000-000000000001", "event_type": "ad_paused", "aggregate_id": "0192d3a0-0000-7000-8000-000000000002", "payload": [1]}]')`))
}

func TestCatalogueTablesRefuseNonsense(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	for _, name := range []string{"", "order ready", "-x", "a\nb", "é", "order.ready\n", "x!"} {
		_, err := pool.Exec(t.Context(), `INSERT INTO outbox_event_types (event_type, aggregate_type, topic, digest) VALUES ($1, '', 't', 'd')`, name)
		require.Equal(t, "23514", state(t, err), "%q", name)
	}
	for _, name := range []string{"order.ready", "a", "9", "urn:x/y-z_1", "com.example.Order"} {
		record(t, pool, "*", name, "", "none")
	}
	_, err := pool.Exec(t.Context(), `INSERT INTO outbox_catalogue (revision, name) VALUES (1, 'second')`)
	require.Equal(t, "23505", state(t, err))
	_, err = pool.Exec(t.Context(), `INSERT INTO outbox_catalogue (one_row, revision, name) VALUES (false, 1, 'second')`)
	require.Equal(t, "23514", state(t, err))
}
