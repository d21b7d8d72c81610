package migrate_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// Whoever changes something is named, and what is still in use is not cleaned: infinity is younger than any floor.
func TestOperatorFunctionsAskForAnActorAndATimeThatIsOver(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `SELECT outbox_first_time('mailer', gen_random_uuid())`)
	require.NoError(t, err)
	for sql, column := range map[string]string{
		`SELECT outbox_forget_event('mailer', (SELECT event_id FROM inbox_events), true, '', NULL, NULL)`:   "actor",
		`SELECT outbox_forget_event('mailer', (SELECT event_id FROM inbox_events), true, NULL, NULL, NULL)`: "actor",
		`SELECT outbox_forget_event_undone(1, ' ', NULL, NULL)`:                                             "actor",
		`SELECT outbox_plan_abandon(gen_random_uuid(), '', '')`:                                             "actor",
		`SELECT outbox_cleanup('inbox', now(), NULL, 10, '', NULL, NULL, NULL)`:                             "actor",
		`SELECT outbox_cleanup('events', now(), NULL, 10, ' ', NULL, NULL, NULL)`:                           "actor",
		`SELECT outbox_cleanup('dlq', now(), NULL, 10, NULL, NULL, NULL, NULL)`:                             "actor",
		`SELECT outbox_cleanup('audit', '-infinity', NULL, 10, '', NULL, NULL, NULL)`:                       "actor",
		`SELECT outbox_cleanup('inbox', 'infinity', NULL, 10, 'me', NULL, NULL, NULL)`:                      "older_than",
		`SELECT outbox_cleanup('inbox', now() + interval '1 s', NULL, 10, 'me', NULL, NULL, NULL)`:          "older_than",
		`SELECT outbox_cleanup('inbox', NULL, NULL, 10, 'me', NULL, NULL, NULL)`:                            "older_than",
		`SELECT outbox_cleanup('events', 'infinity', NULL, 10, 'me', NULL, NULL, NULL)`:                     "older_than",
		`SELECT outbox_cleanup('dlq', 'infinity', NULL, 10, 'me', NULL, NULL, NULL)`:                        "older_than",
		`SELECT outbox_cleanup('audit', 'infinity', NULL, 10, 'me', NULL, NULL, NULL)`:                      "older_than",
	} {
		_, err := pool.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, sql)
		require.Equal(t, []string{"OX300", column}, []string{pg.Code, pg.ColumnName}, sql)
	}
	_, err = pool.Exec(t.Context(), `INSERT INTO outbox_audit (actor, action) VALUES (' ', 'pause')`)
	require.ErrorContains(t, err, "outbox_audit_actor_check")
	require.Equal(t, int64(1), queryOne[int64](t, pool, `SELECT count(*) FROM inbox_events`))
}
