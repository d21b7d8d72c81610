package cmd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// The inbox must not forget what Redis may still lose.
func TestCleanupOfTheInboxKeepsToTheTTL(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO inbox_events (consumer, event_id, processed_at)
		VALUES ('compliance', gen_random_uuid(), now() - interval '31 days'), ('compliance', gen_random_uuid(), now() - interval '3 days')`)
	require.NoError(t, err)
	require.Contains(t, w.fails(cli.ExitUsage, "cleanup"), "--inbox-older-than")
	require.Contains(t, w.fails(cli.ExitUsage, "cleanup", "--inbox-older-than", "29d"), "idempotency.ttl")
	require.Contains(t, w.ok("cleanup", "--inbox-older-than", "30d", "--dry-run"), "would remove 1 inbox rows")
	require.Contains(t, w.ok("cleanup", "--inbox-older-than", "30d"), "1 inbox rows")
	var run string
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT detail ->> 'runId' FROM outbox_audit`).Scan(&run))
	require.Contains(t, w.ok("audit", "--run", run), "cleanup")
	require.Equal(t, 1, w.Count(`SELECT count(*) FROM inbox_events`))
	require.Empty(t, w.ok("cleanup", "--inbox-older-than", "30d"), "nothing to do, nothing to say")

	w.env = append(w.env, "OUTBOXCTL_IDEMPOTENCY_TTL=24h")
	w.ok("cleanup", "--inbox-older-than", "1d")
	require.Zero(t, w.Count(`SELECT count(*) FROM inbox_events`))
}

func TestCleanupOfTheAuditTrail(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO outbox_audit (actor, action, at) VALUES ('op', 'dlq.replay', now() - interval '401 days'), ('op', 'dlq.replay', now())`)
	require.NoError(t, err)
	require.Contains(t, w.fails(cli.ExitUsage, "cleanup", "--audit-older-than", "6d"), "is less than 7d")
	require.Contains(t, w.ok("cleanup", "--audit-older-than", "400d", "--dry-run"), "would remove 1 audit rows\n  dlq.replay\t1\n")
	require.Contains(t, w.ok("cleanup", "--audit-older-than", "400d", "--note", "retention"), "1 audit rows")
	require.Equal(t, 1, w.Count(`SELECT count(*) FROM outbox_audit WHERE action = 'dlq.replay'`))
	require.Contains(t, w.ok("audit", "--action", "cleanup"), "retention")
}

func TestCleanupWithoutASchemaSaysWhatToDo(t *testing.T) {
	t.Parallel()
	env := []string{"DATABASE_URL=" + outboxtest.EmptyDB(t).URL}
	for _, age := range []string{"--older-than", "--dlq-older-than", "--inbox-older-than", "--audit-older-than"} {
		for _, args := range [][]string{{"cleanup", age, "90d"}, {"cleanup", age, "90d", "--dry-run"}} {
			code, _, stderr := runCLI(t, env, args...)
			require.Equal(t, cli.ExitPrecondition, code, "%v: %s", args, stderr)
			require.Contains(t, stderr, "the database's schema is missing or old", "%v", args)
		}
	}
}
