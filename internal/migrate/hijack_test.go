package migrate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// hijacked is the SQLSTATE of everything that plant creates.
const hijacked = "HJ001"

// Where every role may create in the schema, as in every database made before PostgreSQL 15, a stranger can add a function
// or an operator that fits a call better than the one of pg_catalog. None of ours may ever reach such a thing.
func TestNoFunctionCanBeHijacked(t *testing.T) {
	t.Parallel()
	admin := outboxtest.EmptyDB(t).Pool
	stranger := pgIdent(t, "stranger")
	exec(t, admin, "CREATE ROLE "+stranger)
	t.Cleanup(func() { dropRole(t, admin, stranger) })
	pool := outboxtest.DB(t).Pool
	exec(t, pool, `GRANT CREATE ON SCHEMA public TO PUBLIC`)
	exec(t, pool, callable)
	plant(t, pool, stranger)

	for _, idle := range []bool{false, true} {
		if idle { // an idle publisher: who inserts wakes it
			conn, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			defer conn.Release()
			_, err = conn.Exec(t.Context(), `SELECT pg_advisory_lock(1870034018::int, 1::int)`)
			require.NoError(t, err)
		}
		for _, c := range calls {
			require.Equal(t, c.state, c.try(t, pool), "%s: %s", c.role, c.sql)
		}
	}

	// The proof that it would have been seen: with the schema on its path each of them falls.
	for _, f := range queryAll(t, pool, `SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef ORDER BY 1`) {
		switch name, _, _ := strings.Cut(f, "("); name {
		case "outbox_first_time", "outbox_consumer_beat", "outbox_consumer_failed", "outbox_consumer_recovered":
			continue // they compare values of the very same type: nothing that is planted could fit better
		}
		if f == "outbox_forget_samples()" {
			continue // it only says ANALYZE
		}
		exec(t, pool, "ALTER FUNCTION "+f+" SET search_path = pg_catalog, public, pg_temp")
		fell := slices.ContainsFunc(calls, func(c call) bool {
			return strings.Contains(c.sql, f[:strings.Index(f, "(")+1]) && c.try(t, pool) != c.state
		})
		require.True(t, fell, "%s was not hijacked with the schema on its path: nothing was planted for it", f)
		exec(t, pool, "ALTER FUNCTION "+f+" SET search_path = pg_catalog, pg_temp")
	}
}

// A call is what a role does, with every argument of the exact type: a caller who leaves the choice to PostgreSQL is not
// ours to protect.
type call struct{ role, sql, state string }

// try makes the call and takes it back.
func (c call) try(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE "+c.role+"; SET LOCAL search_path = public"); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), c.sql); err != nil {
			return err
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		return allowed
	}
	return state(t, err)
}

// callable is what the calls work on: a dead event with an open and a discarded dead letter, a published one, one
// that a consumer has processed, and an aggregate that takes no event.
const callable = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dead_at, published_at)
VALUES ('00000000-0000-7000-8000-000000000001', 'order_created', 'checkout_group', gen_random_uuid(), '{}', now(), NULL),
       ('00000000-0000-7000-8000-000000000002', 'order_created', 'checkout_group', gen_random_uuid(), '{}', NULL, now() - interval '1 day');
INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, state, state_changed_at)
SELECT v.id, e.id, e.event_type, e.aggregate_type, e.aggregate_id, e.payload_json, 'max_attempts', 'x', 10, v.state, now() - interval '1 day'
  FROM outbox_events AS e,
       (VALUES ('00000000-0000-7000-8000-000000000003'::uuid, 'open'), ('00000000-0000-7000-8000-000000000004', 'discarded')) AS v(id, state)
 WHERE e.dead_at IS NOT NULL;
CREATE UNIQUE INDEX none ON outbox_events ((0)) WHERE aggregate_id = '00000000-0000-7000-8000-000000000005';
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
VALUES (gen_random_uuid(), 'order_created', 'checkout_group', '00000000-0000-7000-8000-000000000005', '{}');
INSERT INTO inbox_events (consumer, event_id, processed_at) VALUES ('c', '00000000-0000-7000-8000-000000000001', now() - interval '1 day');
INSERT INTO outbox_consumers (id, consumer, subscription, host, pid, rate) VALUES ('00000000-0000-7000-8000-000000000001', 'c', 's', 'h', 1, 0);
INSERT INTO outbox_audit (actor, action, at) VALUES ('me', 'test', now() - interval '1 year');
INSERT INTO outbox_audit (id, actor, action, detail) OVERRIDING SYSTEM VALUE
VALUES (1000, 'me', 'resume', '{"kind": "type", "value": "z", "before": {"kind": "type", "value": "z", "actor": "me", "at": "2026-03-01T12:00:00Z", "audit_id": 7}}');
INSERT INTO outbox_pauses (kind, value, actor, until) VALUES ('type', 'x', 'me', NULL), ('type', 'y', 'me', now() - interval '1 day');
INSERT INTO outbox_plans (id, action, state, author, database, lease, lease_until, total)
SELECT v.id, v.action, v.state, 'me', '{}', '00000000-0000-7000-8000-00000000000f', now() + interval '1 hour', 1
  FROM (VALUES ('00000000-0000-7000-8000-0000000000a1'::uuid, 'dlq.replay', 'making'), ('00000000-0000-7000-8000-0000000000a2', 'dlq.replay', 'ready'),
               ('00000000-0000-7000-8000-0000000000a3', 'dlq.replay', 'running'), ('00000000-0000-7000-8000-0000000000a4', 'event.republish', 'running')) AS v(id, action, state);
INSERT INTO outbox_plan_chunks (plan_id, chunk, size, ids, event_ids, seen, digests)
SELECT p.id, 1, 1, ARRAY[v.id], ARRAY[v.event_id], '{NULL}', ARRAY[jsonb_hash_extended('{}', 0)]
  FROM outbox_plans AS p, (VALUES ('dlq.replay', '00000000-0000-7000-8000-000000000003'::uuid, '00000000-0000-7000-8000-000000000001'::uuid),
                                  ('event.republish', '00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000002')) AS v(action, id, event_id)
 WHERE p.action = v.action;`

// calls runs every function, along its good and its bad paths.
var calls = []call{
	{"outbox_emitter", emitCall("'order_created'", `'{"a": 1}'`, "NULL", "NULL", "NULL", "NULL"), allowed},
	{"outbox_emitter", emitCall("'order_created'", `'{}'`, "'k'", `'{"traceparent": "00-x"}'`, `'{"userId": "u", "storeId": null, "role": null}'`, "3"), allowed},
	{"outbox_emitter", emitCall("'order_created'", `'{}'`, "'taken'", "NULL", "NULL", "NULL") + "; " +
		emitCall("'order_created'", `'{}'`, "'taken'", "NULL", "NULL", "NULL"), allowed},
	{"outbox_emitter", emitCall("'nonsense'", `'{}'`, "NULL", "NULL", "NULL", "NULL"), "OX001"},
	{"outbox_emitter", emitCall("'order_created'", `'null'`, "NULL", "NULL", "NULL", "NULL"), "OX003"},
	{"outbox_emitter", emitCall("'order_created'", `'{}'`, "''", "NULL", "NULL", "NULL"), "OX004"},
	{"outbox_emitter", emitCall("'order_created'", `'{}'`, "NULL", `'{"a": 1}'`, "NULL", "NULL"), "OX004"},
	{"outbox_emitter", emitCall("'order_created'", `'{}'`, "NULL", `'{"event_id": "x"}'`, "NULL", "NULL"), "OX004"},
	{"outbox_emitter", emitCall("'order_created'", `'{}'`, "NULL", `'{"goog": "x"}'`, "NULL", "NULL"), "OX004"},
	{"outbox_emitter", emitCall("'order_created'", `'{}'`, "NULL", "NULL", `'{"userId": 1}'`, "NULL"), "OX004"},
	{"outbox_emitter", emitCall("'order_created'", `'{}'`, "NULL", "NULL", "NULL", "0"), "OX004"},
	{"outbox_emitter", idCall("7::bigint"), "OX001"},
	{"outbox_emitter", idCall("7::integer"), "OX001"},
	{"outbox_emitter", idCall("7::smallint"), "OX001"},
	{"outbox_emitter", idCall("'7'::text"), "OX001"},
	{"outbox_emitter", idCall("'" + aggregate + "'::uuid"), "OX001"},
	{"outbox_emitter", emitManyCall(`[` + row("00000000-0000-7000-8000-00000000000a", "") + `,` + row("00000000-0000-7000-8000-00000000000a", "") + `]`), allowed},
	{"outbox_emitter", emitManyCall(`[` + row("00000000-0000-7000-8000-00000000000a", "") + `,{"id": "00000000-0000-7000-8000-00000000000b"}]`), "OX001"},
	{"outbox_emitter", emitManyCall(`[` + row("00000000-0000-7000-8000-000000000002", "") + `]`), "OX007"},
	{"outbox_emitter", emitManyCall(`{}`), "OX004"},
	{"outbox_emitter", emitManyCall(`[` + strings.ReplaceAll(row("00000000-0000-7000-8000-00000000000a", ""), aggregate, "00000000-0000-7000-8000-000000000005") + `]`), "OX008"},
	{"outbox_emitter", insert, allowed},
	{"outbox_emitter", strings.Replace(insert, "'{}'", "'[1e131071]'", 1), "OX104"},
	{"outbox_dispatcher", `/* outbox_count_dead_letters() */ INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
		VALUES ('00000000-0000-7000-8000-000000000001', 'order_created', 'checkout_group', '00000000-0000-7000-8000-000000000009', '{}', 'max_attempts', 'x', 1)`, allowed},
	{"outbox_operator", `SELECT outbox_change('dlq.replay'::text, '{00000000-0000-7000-8000-000000000003,00000000-0000-7000-8000-000000000009}'::uuid[], 'me'::text, 'why'::text, '{}'::jsonb, NULL::text[])`, allowed},
	{"outbox_operator", `SELECT outbox_change('dlq.replay'::text, '{00000000-0000-7000-8000-000000000003}'::uuid[], ' '::text, NULL::text, NULL::jsonb, NULL::text[])`, "OX300"},
	{"outbox_operator", `SELECT outbox_change('dlq.replay'::text, '{00000000-0000-7000-8000-000000000003}'::uuid[], 'me'::text, NULL::text, '[]'::jsonb, NULL::text[])`, "OX300"},
	{"outbox_operator", `SELECT outbox_change('dlq.discard'::text, '{00000000-0000-7000-8000-000000000003}'::uuid[], 'me'::text, NULL::text, NULL::jsonb, '{7}'::text[])`, allowed},
	{"outbox_operator", `SELECT outbox_change('dlq.discard'::text, '{00000000-0000-7000-8000-000000000003}'::uuid[], 'me'::text, NULL::text, NULL::jsonb, NULL::text[])`, allowed},
	{"outbox_operator", `SELECT outbox_change('dlq.restore'::text, '{00000000-0000-7000-8000-000000000004}'::uuid[], 'me'::text, NULL::text, NULL::jsonb, NULL::text[])`, allowed},
	{"outbox_operator", `SELECT outbox_correct('00000000-0000-7000-8000-000000000003'::uuid, '00000000-0000-7000-8000-00000000000c'::uuid, '{}'::jsonb, '{}'::jsonb, 'me'::text, NULL::text, NULL::jsonb)`, "OX003"},
	{"outbox_operator", `SELECT outbox_change('event.retry'::text, '{00000000-0000-7000-8000-000000000001}'::uuid[], 'me'::text, NULL::text, NULL::jsonb, NULL::text[])`, allowed},
	{"outbox_operator", `SELECT outbox_pause('type'::text, 'x'::text, 60::float8, 'me'::text, NULL::text, NULL::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_pause('odd'::text, 'x'::text, NULL::float8, 'me'::text, NULL::text, NULL::jsonb)`, "OX300"},
	{"outbox_operator", `SELECT outbox_resume('type'::text, 'x'::text, 'me'::text, NULL::text, NULL::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_undo_pause(1000::bigint, 'me'::text, NULL::text, NULL::jsonb)`, allowed},
	{"outbox_viewer", `SELECT outbox_pause_undone(1000::bigint)`, allowed},
	{"outbox_viewer", `SELECT outbox_claimable(10::bigint)`, allowed},
	{"outbox_operator", `SELECT outbox_change('event.republish'::text, '{00000000-0000-7000-8000-000000000002}'::uuid[], 'me'::text, NULL::text, NULL::jsonb, '{NULL}'::text[])`, allowed},
	{"outbox_operator", `SELECT outbox_change('event.erase'::text, '{00000000-0000-7000-8000-000000000001}'::uuid[], 'me'::text, NULL::text, NULL::jsonb, '{NULL}'::text[])`, allowed},
	{"outbox_operator", `SELECT outbox_forget_event('c'::text, '00000000-0000-7000-8000-000000000001'::uuid, true, 'me'::text, NULL::text, NULL::jsonb)`, allowed},
	{"outbox_emitter", `SELECT outbox_consumer_failed('c'::text, '00000000-0000-7000-8000-000000000001'::uuid, 't'::text, 'n'::text, ''::text, ''::text, 's'::text, 'e'::text, false, 3)`, allowed},
	{"outbox_emitter", `SELECT outbox_consumer_recovered('c'::text, '{00000000-0000-7000-8000-000000000001}'::uuid[])`, allowed},
	{"outbox_emitter", `SELECT outbox_consumer_beat('00000000-0000-7000-8000-000000000001'::uuid, 'c'::text, 's'::text, 'h'::text, 1, 0::float8, NULL::float8, '00000000-0000-7000-8000-000000000001'::uuid, 1)`, allowed},
	{"outbox_operator", `SELECT * FROM outbox_reveal('00000000-0000-7000-8000-000000000001'::uuid, 'me'::text, 'why'::text, NULL::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_forget_event_undone(1::bigint, 'me'::text, NULL::text, NULL::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_cleanup('events'::text, now(), NULL::timestamptz, 10::int, 'me'::text, NULL::text, '{}'::jsonb, NULL::bigint)`, allowed},
	{"outbox_operator", `SELECT outbox_cleanup('history'::text, NULL::timestamptz, NULL::timestamptz, 10::int, 'me'::text, NULL::text, NULL::jsonb, NULL::bigint)`, allowed},
	{"outbox_operator", `SELECT outbox_cleanup('inbox'::text, now(), NULL::timestamptz, 10::int, 'me'::text, NULL::text, '{}'::jsonb, NULL::bigint)`, allowed},
	{"outbox_operator", `SELECT outbox_cleanup('failures'::text, now(), NULL::timestamptz, 10::int, 'me'::text, NULL::text, '{}'::jsonb, NULL::bigint)`, allowed},
	{"outbox_operator", `SELECT outbox_cleanup('dlq'::text, now(), NULL::timestamptz, 10::int, 'me'::text, NULL::text, '{}'::jsonb, NULL::bigint)`, allowed},
	{"outbox_operator", `SELECT outbox_cleanup('audit'::text, (now() - interval '8 days')::timestamptz, NULL::timestamptz, 10::int, 'me'::text, NULL::text, '{}'::jsonb, NULL::bigint)`, allowed},
	{"outbox_operator", `SELECT outbox_cleanup('audit'::text, now(), NULL::timestamptz, 10::int, 'me'::text, NULL::text, '{}'::jsonb, NULL::bigint)`, "OX300"},
	{"outbox_operator", `SELECT outbox_cleanup('events'::text, now(), NULL::timestamptz, 10::int, 'me'::text, NULL::text, '{}'::jsonb, 0::bigint)`, "OX300"},
	{"postgres", `SELECT outbox_uuid_v7(), outbox_packfinderz_aggregate('ad_paused'::text)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_create('dlq.replay'::text, 'me'::text, NULL::text, '{}'::jsonb, NULL::text, '{}'::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_add(` + making + `, 2::int, '{00000000-0000-7000-8000-000000000003}'::uuid[], '{NULL}'::text[], true)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_ready(` + making + `, '{}'::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_abandon('00000000-0000-7000-8000-0000000000a2'::uuid, 'me'::text, ''::text)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_begin('00000000-0000-7000-8000-0000000000a2'::uuid, 'me'::text, ''::text, '{}'::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_step(` + running + `, 10::int, 'me'::text, '{}'::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_step('00000000-0000-7000-8000-0000000000a4'::uuid, '00000000-0000-7000-8000-00000000000f'::uuid, 10::int, 'me'::text, '{}'::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_beat(` + running + `, NULL::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_end(` + running + `, false, ''::text, '{}'::jsonb)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_stop('00000000-0000-7000-8000-0000000000a3'::uuid, 'me'::text)`, allowed},
	{"outbox_operator", `SELECT outbox_plan_create('none'::text, 'me'::text, NULL::text, '{}'::jsonb, NULL::text, '{}'::jsonb)`, "OX300"},
	{"outbox_operator", `SELECT outbox_plan_add(` + unknownPlan + `, 2::int, '{00000000-0000-7000-8000-000000000003}'::uuid[], '{NULL}'::text[], true)`, "OX312"},
	{"outbox_operator", `SELECT outbox_plan_ready(` + unknownPlan + `, '{}'::jsonb)`, "OX312"},
	{"outbox_operator", `SELECT outbox_plan_abandon('00000000-0000-7000-8000-0000000000a3'::uuid, 'me'::text, ''::text)`, "OX310"},
	{"outbox_operator", `SELECT outbox_plan_begin('00000000-0000-7000-8000-0000000000a3'::uuid, 'me'::text, ''::text, '{}'::jsonb)`, "OX312"},
	{"outbox_operator", `SELECT outbox_plan_beat(` + unknownPlan + `, NULL::jsonb)`, "OX312"},
	{"outbox_operator", `SELECT outbox_plan_end(` + unknownPlan + `, false, ''::text, '{}'::jsonb)`, "OX312"},
	{"outbox_operator", `SELECT outbox_plan_stop('00000000-0000-7000-8000-0000000000a2'::uuid, 'me'::text)`, "OX310"},
	{"postgres", `UPDATE outbox_events SET payload_json = payload_json`, "OX100"},
	{"postgres", `DELETE FROM outbox_dlq`, "OX101"},
	{"postgres", `TRUNCATE outbox_audit`, "OX102"},
}

// A plan with its lease: one that is being made, one that runs, and one that there is not.
const (
	unknownPlan = `'00000000-0000-7000-8000-0000000000a9'::uuid, '00000000-0000-7000-8000-00000000000f'::uuid`
	making      = `'00000000-0000-7000-8000-0000000000a1'::uuid, '00000000-0000-7000-8000-00000000000f'::uuid`
	running     = `'00000000-0000-7000-8000-0000000000a3'::uuid, '00000000-0000-7000-8000-00000000000f'::uuid`
)

// idCall emits with an aggregate's id of one of the types that there is a function for.
func idCall(id string) string {
	return `SELECT outbox_emit('nonsense'::text, NULL::text, ` + id + `, '{}'::jsonb, NULL::text, NULL::uuid, 'default'::text, NULL::jsonb,
		NULL::timestamptz, NULL::jsonb, NULL::int, NULL::uuid, NULL::text)`
}

func emitCall(eventType, data, key, headers, actor, maxAttempts string) string {
	return fmt.Sprintf(`SELECT outbox_emit(%s::text, NULL::text, '%s'::uuid, %s::jsonb, %s::text, NULL::uuid, 'default'::text, %s::jsonb,
		NULL::timestamptz, %s::jsonb, %s::int, NULL::uuid)`, eventType, aggregate, data, key, headers, actor, maxAttempts)
}

func emitManyCall(events string) string { return `SELECT outbox_emit_many('` + events + `'::jsonb)` }
