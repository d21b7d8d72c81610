package migrate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/migrations"
)

const (
	allowed = ""
	denied  = "42501"
	// malformed is a statement that nobody can run.
	malformed = "42601"
)

// Role × statement × SQLSTATE: what each role is for works, and nothing else does.
func TestRoleMatrix(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	exec(t, pool, insert)
	const plainInsert = `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, namespace, tenant_id, dedupe_key, max_attempts, headers)
		VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', 'default', NULL, 'k', NULL, NULL)`
	const deadLetter = `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason,
		error_message, attempt_count, namespace, tenant_id, topic, fingerprint, event_created_at)
		SELECT id, event_type, aggregate_type, aggregate_id, payload_json, headers, 'max_attempts', 'x', 10, namespace, tenant_id, 'domain', 'f', created_at
		  FROM outbox_events LIMIT 1`
	roles := []string{"outbox_emitter", "outbox_dispatcher", "outbox_operator", "outbox_viewer"}
	// A login that is in none of them may do what anybody may.
	const nobody = "outbox_matrix_nobody"
	exec(t, pool, "CREATE ROLE "+nobody)
	t.Cleanup(func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+nobody)
		require.NoError(t, err)
	})
	public := []string{
		`SELECT outbox_aggregate_id(gen_random_uuid()::text), outbox_aggregate_type('license'), outbox_event_type('order_created')`,
		`SELECT outbox_outcome('a', 'b', true, true, true, true, true, true), outbox_success('a')`, `SELECT outbox_uuid_v7()`,
	}
	matrix := []struct {
		statement string
		want      [4]string
	}{
		{plainInsert, [4]string{allowed, denied, denied, denied}},
		{plainInsert + " ON CONFLICT DO NOTHING", [4]string{allowed, denied, denied, denied}},
		{plainInsert + " RETURNING id", [4]string{denied, denied, denied, denied}},
		{plainInsert + " ON CONFLICT (namespace, event_type, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING", [4]string{denied, denied, denied, denied}},
		{strings.Replace(plainInsert, "payload_json,", "payload_json, created_at,", 1), [4]string{malformed, malformed, malformed, malformed}},
		{`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
			VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', now())`, [4]string{denied, denied, denied, denied}},
		{`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at)
			VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', now())`, [4]string{denied, denied, denied, denied}},
		{`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, deliver_at, next_attempt_at)
			VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', now() + interval '1h', now() + interval '1h')`, [4]string{allowed, denied, denied, denied}},
		{`SELECT outbox_emit('order_created', NULL, gen_random_uuid(), '{}', deliver_at => now() + interval '2 hours')`, [4]string{allowed, denied, denied, denied}},
		{`SELECT outbox_emit('order_created', NULL, gen_random_uuid(), '{}')`, [4]string{allowed, denied, denied, denied}},
		{`SELECT outbox_emit_many('[]')`, [4]string{allowed, denied, denied, denied}},
		{`SELECT outbox_grant('GRANT SELECT ON outbox_events TO outbox_viewer')`, [4]string{denied, denied, denied, denied}},

		{`SELECT * FROM outbox_events`, [4]string{denied, allowed, allowed, denied}},
		{`SELECT payload_json FROM outbox_events`, [4]string{denied, allowed, allowed, denied}},
		{`SELECT headers FROM outbox_events`, [4]string{denied, allowed, allowed, denied}},
		{`SELECT id, seq, event_type, last_error FROM outbox_events`, [4]string{denied, allowed, allowed, allowed}},
		{`SELECT * FROM outbox_event_status`, [4]string{denied, allowed, allowed, allowed}},
		{`SELECT version_id FROM outbox_schema_version`, [4]string{denied, allowed, allowed, allowed}},
		{`SELECT e.event_type, c.revision FROM outbox_event_types AS e, outbox_catalogue AS c`, [4]string{allowed, allowed, allowed, allowed}},
		{`INSERT INTO outbox_event_types (event_type, aggregate_type, topic, digest) VALUES ('a', 'b', 'c', 'd')`, [4]string{denied, denied, denied, denied}},
		{`UPDATE outbox_catalogue SET revision = 1`, [4]string{denied, denied, denied, denied}},
		{`SELECT id FROM outbox_events FOR UPDATE SKIP LOCKED`, [4]string{denied, allowed, denied, denied}},
		{`UPDATE outbox_events SET published_at = now(), attempt_count = 1, last_error = '', next_attempt_at = now(),
			dead_at = NULL, broker_message_id = ''`, [4]string{denied, allowed, denied, denied}},
		{`UPDATE outbox_events SET payload_json = '{}'`, [4]string{denied, denied, denied, denied}},
		{`UPDATE outbox_events SET max_attempts = 1`, [4]string{denied, denied, denied, denied}},
		{`SELECT * FROM outbox_leases`, [4]string{denied, allowed, allowed, allowed}},
		{`INSERT INTO outbox_leases (owner, until, seqs) VALUES (gen_random_uuid(), now(), '{[1,2)}')`, [4]string{denied, allowed, denied, denied}},
		{`UPDATE outbox_leases SET seqs = '{}'`, [4]string{denied, allowed, denied, denied}},
		{`UPDATE outbox_leases SET owner = gen_random_uuid()`, [4]string{denied, denied, denied, denied}},
		{`DELETE FROM outbox_leases`, [4]string{denied, allowed, denied, denied}},
		{`SELECT outbox_forget_leases('{}')`, [4]string{denied, denied, denied, denied}},
		{`DELETE FROM outbox_events`, [4]string{denied, denied, denied, denied}},
		{`TRUNCATE outbox_events`, [4]string{denied, denied, denied, denied}},

		{deadLetter, [4]string{denied, allowed, denied, denied}},
		{`SELECT payload_json FROM outbox_dlq`, [4]string{denied, allowed, allowed, denied}},
		{`SELECT headers FROM outbox_dlq`, [4]string{denied, allowed, allowed, denied}},
		{`SELECT id, error_reason, error_message, state FROM outbox_dlq`, [4]string{denied, allowed, allowed, allowed}},
		{`UPDATE outbox_dlq SET state = 'replayed'`, [4]string{denied, denied, denied, denied}},
		{`SELECT * FROM outbox_dlq_counts`, [4]string{denied, allowed, allowed, allowed}},
		{`INSERT INTO outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, n) VALUES ('open', '', '', '', '', 1)`, [4]string{denied, denied, denied, denied}},
		{`SELECT * FROM outbox_dlq_causes`, [4]string{denied, denied, allowed, allowed}},
		{`INSERT INTO outbox_dlq_causes (fingerprint, n) VALUES ('x', 1)`, [4]string{denied, denied, denied, denied}},
		{`DELETE FROM outbox_dlq`, [4]string{denied, denied, denied, denied}},
		{`SELECT * FROM outbox_audit`, [4]string{denied, denied, allowed, allowed}},
		{`INSERT INTO outbox_audit (actor, action) VALUES ('me', 'forged')`, [4]string{denied, denied, denied, denied}},

		{`SELECT outbox_change('dlq.replay', ARRAY[gen_random_uuid()], 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_change('dlq.discard', ARRAY[gen_random_uuid()], 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_change('dlq.restore', ARRAY[gen_random_uuid()], 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_change('event.retry', ARRAY[gen_random_uuid()], 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_change('event.erase', ARRAY[gen_random_uuid()], 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_erase_outcome(gen_random_uuid(), NULL)`, [4]string{denied, allowed, allowed, allowed}},
		{`SELECT outbox_forget_samples()`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_pause('type', 'x', NULL, 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_resume('type', 'x', 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_undo_pause(1, 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_pause_undone(1)`, [4]string{denied, denied, allowed, allowed}},
		{`SELECT outbox_claimable(10)`, [4]string{denied, allowed, allowed, allowed}},
		{`SELECT * FROM outbox_pauses`, [4]string{denied, allowed, allowed, allowed}},
		{`SELECT * FROM outbox_history`, [4]string{denied, allowed, allowed, allowed}},
		{`INSERT INTO outbox_history (at, topic, event_type, figures) VALUES (now(), '', '', '{}')`, [4]string{denied, allowed, denied, denied}},
		{`DELETE FROM outbox_history`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_cleanup('history', NULL, NULL, 1, 'me', NULL, NULL, NULL)`, [4]string{denied, denied, allowed, denied}},
		{`INSERT INTO outbox_pauses (kind, value, actor) VALUES ('type', 'x', 'me')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_correct(gen_random_uuid(), gen_random_uuid(), '{}', '{}', 'me')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT * FROM outbox_cleanup('events', now(), NULL, 1, 'me', NULL, '{}', NULL)`, [4]string{denied, denied, allowed, denied}},
		{`SELECT * FROM outbox_cleanup('inbox', now(), NULL, 1, 'me', NULL, '{}', NULL)`, [4]string{denied, denied, allowed, denied}},
		{`SELECT * FROM outbox_cleanup('failures', now(), NULL, 1, 'me', NULL, '{}', NULL)`, [4]string{denied, denied, allowed, denied}},
		{`SELECT * FROM outbox_cleanup('dlq', now(), NULL, 1, 'me', NULL, '{}', NULL)`, [4]string{denied, denied, allowed, denied}},
		{`SELECT * FROM outbox_cleanup('audit', '-infinity', NULL, 1, 'me', NULL, '{}', NULL)`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_audit_cleanup(NULL, 'me', NULL, '{}', 'events', now(), 1, NULL)`, [4]string{denied, denied, denied, denied}},
		{`DELETE FROM outbox_audit`, [4]string{denied, denied, denied, denied}},
		{`SELECT * FROM outbox_forget_event('c', gen_random_uuid(), true, 'me', NULL, '{}')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT * FROM outbox_reveal(gen_random_uuid(), 'me', 'why', '{}')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_forget_event_undone(1, 'me', NULL, '{}')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_plan_create('dlq.replay', 'me', NULL, NULL, NULL, '{}')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT outbox_plan_add(gen_random_uuid(), gen_random_uuid(), 1, '{}', '{}', true)`, [4]string{denied, denied, "OX300", denied}},
		{`SELECT outbox_add_counts('{}', '{}')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_plan_left_out(gen_random_uuid())`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_plan_ready(gen_random_uuid(), gen_random_uuid(), '{}')`, [4]string{denied, denied, "OX312", denied}},
		{`SELECT outbox_plan_abandon(gen_random_uuid(), 'me', '')`, [4]string{denied, denied, "OX310", denied}},
		{`SELECT outbox_plan_begin(gen_random_uuid(), 'me', '', '{}')`, [4]string{denied, denied, "OX311", denied}},
		{`SELECT outbox_plan_step(gen_random_uuid(), gen_random_uuid(), 1, 'me', '{}')`, [4]string{denied, denied, "OX312", denied}},
		{`SELECT outbox_plan_beat(gen_random_uuid(), gen_random_uuid(), NULL)`, [4]string{denied, denied, "OX312", denied}},
		{`SELECT outbox_plan_end(gen_random_uuid(), gen_random_uuid(), false, '', '{}')`, [4]string{denied, denied, "OX312", denied}},
		{`SELECT outbox_plan_stop(gen_random_uuid(), 'me')`, [4]string{denied, denied, "OX310", denied}},
		{`SELECT state, left_out FROM outbox_plans`, [4]string{denied, denied, allowed, allowed}},
		{`SELECT lease FROM outbox_plans`, [4]string{denied, denied, denied, denied}},
		{`SELECT ids, outcomes FROM outbox_plan_chunks`, [4]string{denied, denied, allowed, allowed}},
		{`SELECT digests FROM outbox_plan_chunks`, [4]string{denied, denied, allowed, denied}},
		{`INSERT INTO outbox_plan_chunks (plan_id) VALUES (gen_random_uuid())`, [4]string{denied, denied, denied, denied}},
		{`UPDATE outbox_plans SET state = 'ready'`, [4]string{denied, denied, denied, denied}},
		{public[0], [4]string{allowed, allowed, allowed, allowed}},
		{public[1], [4]string{allowed, allowed, allowed, allowed}},
		{public[2], [4]string{allowed, allowed, allowed, allowed}},
		{`SELECT outbox_audit_change('me', 'forged', NULL, '{}', NULL, 1)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_packfinderz_aggregate('order_created')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_catalogue_type('default', 'order_created')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_aggregate_id_fits('a')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_actor('{}')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_actor_fits('{}')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_weight_refusal(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_refusal(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_envelope_refusal(NULL, NULL)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_envelope(NULL, NULL, NULL)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_moment(now())`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_traced(NULL)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_holder(NULL, NULL, NULL, NULL, NULL, NULL)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_kept_out_by()`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_uuid_v7(1, 'a', 1)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_event_rows('[]', 1, 'a', '{}', '{}')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_unreadable('[]')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_field_bytes(1)`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_former_event('{}', 'a', 'b')`, [4]string{denied, denied, denied, denied}},
		{`SELECT outbox_first_time('c', gen_random_uuid())`, [4]string{allowed, denied, denied, denied}},
		{`SELECT outbox_change('event.republish', ARRAY[gen_random_uuid()], 'me', NULL, '{}')`, [4]string{denied, denied, allowed, denied}},
		{`SELECT id FROM outbox_publishers`, [4]string{denied, allowed, allowed, allowed}},
		{`DELETE FROM outbox_publishers`, [4]string{denied, allowed, denied, denied}},
		{`SELECT consumer FROM inbox_events`, [4]string{denied, denied, allowed, allowed}},
		{`INSERT INTO inbox_events (consumer, event_id) VALUES ('c', gen_random_uuid())`, [4]string{denied, denied, denied, denied}},
		{`DELETE FROM inbox_events`, [4]string{denied, denied, denied, denied}},
		{`SELECT * FROM outbox_consumer_failed('c', gen_random_uuid(), 't', 'n', '', '', 's', 'e', false, 0)`, [4]string{allowed, denied, denied, denied}},
		{`SELECT outbox_consumer_recovered('c', '{}')`, [4]string{allowed, denied, denied, denied}},
		{`SELECT outbox_consumer_beat(gen_random_uuid(), 'c', 's', 'h', 1, 0, NULL, gen_random_uuid(), 1)`, [4]string{allowed, denied, denied, denied}},
		{`SELECT * FROM outbox_consumer_failures`, [4]string{denied, denied, allowed, allowed}},
		{`SELECT consumer, state, subscription, first_at FROM outbox_consumer_failures`, [4]string{denied, allowed, allowed, allowed}},
		{`DELETE FROM outbox_consumer_failures`, [4]string{denied, denied, denied, denied}},
		{`SELECT * FROM outbox_consumers`, [4]string{denied, allowed, allowed, allowed}},
		{`DELETE FROM outbox_consumers`, [4]string{denied, denied, denied, denied}},
		{`INSERT INTO outbox_schema_version (version_id, is_applied) VALUES (1, true)`, [4]string{denied, denied, denied, denied}},
		{`DROP TABLE outbox_events`, [4]string{denied, denied, denied, denied}},
		{`ALTER TABLE outbox_events DISABLE TRIGGER ALL`, [4]string{denied, denied, denied, denied}},
	}
	var all strings.Builder
	for _, tc := range matrix {
		all.WriteString(tc.statement + "\n")
		for i, role := range append(roles, nobody) {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE "+role); err != nil {
					return err
				}
				if _, err := tx.Exec(t.Context(), tc.statement); err != nil {
					return err
				}
				return errUndo
			})
			got := allowed
			if !errors.Is(err, errUndo) {
				got = state(t, err)
			}
			want := denied
			switch {
			case i < len(roles):
				want = tc.want[i]
			case slices.Contains(public, tc.statement):
				want = allowed
			case tc.want[0] == malformed:
				want = malformed
			}
			require.Equal(t, want, got, "%s: %s", role, tc.statement)
		}
	}
	// Every function that can be called and every table is in the matrix.
	for _, name := range queryAll(t, pool, `SELECT DISTINCT proname::text FROM pg_proc
		WHERE pronamespace = current_schema()::regnamespace AND prorettype <> 'trigger'::regtype ORDER BY 1`) {
		if !strings.Contains(all.String(), name+"(") {
			t.Errorf("function %s is not in the matrix", name)
		}
	}
	for _, name := range queryAll(t, pool, `SELECT relname::text FROM pg_class
		WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v') ORDER BY 1`) {
		if !strings.Contains(all.String(), name) {
			t.Errorf("table %s is not in the matrix", name)
		}
	}
}

type undo struct{}

func (undo) Error() string { return "undo" }

var errUndo error = undo{}

// A function that runs as its owner must look names up in pg_catalog alone, and must not be callable by PUBLIC. The
// same holds for the others, unless only such functions call them.
func TestFunctionsLookNamesUpInTheCatalogueAlone(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	const ours = `SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace `
	const free = ` AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c = 'search_path=pg_catalog, pg_temp')`
	const callableByAll = ` AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a WHERE a.grantee = 0)`
	require.NotEmpty(t, queryAll(t, pool, ours+`AND p.prosecdef`))
	require.Empty(t, queryAll(t, pool, ours+`AND p.prosecdef`+free))
	require.Empty(t, queryAll(t, pool, ours+`AND p.prosecdef`+callableByAll))
	require.Empty(t, queryAll(t, pool, ours+free+callableByAll+` AND p.prosqlbody IS NULL`), "one whose body is parsed looks up nothing")
}

// What migrate grants prints gives other roles exactly what ours have.
func TestPrintedGrantsAreTheGrants(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	names := map[string]string{}
	for _, role := range migrate.Roles() {
		names[role] = pgIdent(t, "Other "+role)
		quoted := pgx.Identifier{names[role]}.Sanitize()
		exec(t, pool, "CREATE ROLE "+quoted)
		t.Cleanup(func() {
			for _, sql := range []string{"DROP OWNED BY " + quoted, "DROP ROLE " + quoted} {
				_, err := pool.Exec(context.WithoutCancel(t.Context()), sql)
				require.NoError(t, err)
			}
		})
	}
	statements, err := migrate.Grants(migrations.FS, names)
	require.NoError(t, err)
	for _, s := range statements {
		exec(t, pool, s)
	}
	for ours, theirs := range names {
		rights := func(role string) []string {
			return queryAll(t, pool, `
SELECT line FROM (
    SELECT format('%s %s', c.oid::regclass, a.privilege_type) AS line, a.grantee
      FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.relnamespace = current_schema()::regnamespace
    UNION ALL
    SELECT format('%s.%s %s', t.attrelid::regclass, t.attname, a.privilege_type), a.grantee
      FROM pg_attribute t, aclexplode(t.attacl) AS a
    UNION ALL
    SELECT format('%s %s', p.oid::regprocedure, a.privilege_type), a.grantee
      FROM pg_proc p, aclexplode(p.proacl) AS a WHERE p.pronamespace = current_schema()::regnamespace
) AS r WHERE grantee = (SELECT oid FROM pg_roles WHERE rolname = $1) ORDER BY line`, role)
		}
		require.NotEmpty(t, rights(ours))
		require.Equal(t, rights(ours), rights(theirs), ours)
	}
}
