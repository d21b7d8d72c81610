package migrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

func TestExistingIdenticalTableIsAdopted(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 3000)
	exec(t, pool, `ALTER INDEX idx_outbox_events_published_at RENAME TO their_own_name`)
	exec(t, pool, `DROP INDEX outbox_events_aggregate_idx`)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	finished(t, pool, 3000, 0)
}

// The inserting role needed no right on a sequence before, and must not need one while seq is half-way.
func TestStrangerCanInsertWhileSeqIsHalfWay(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 10)
	role := pgIdent(t, "stranger")
	exec(t, pool, "CREATE ROLE "+role)
	exec(t, pool, "GRANT INSERT ON outbox_events TO "+role)
	t.Cleanup(func() {
		_, _ = pool.Exec(t.Context(), "DROP OWNED BY "+role)
		_, _ = pool.Exec(t.Context(), "DROP ROLE "+role)
	})
	goOn := stallIndexBuilds(t, pool)
	done := make(chan error, 1)
	go func() {
		_, err := migrate.Up(t.Context(), pool, migrate.Options{})
		done <- err
	}()
	eventually(t, pool, invalidIndex)
	_, err := pool.Exec(t.Context(), "SET ROLE "+role+"; "+insert+"; RESET ROLE")
	require.NoError(t, err)
	goOn()
	require.NoError(t, <-done)
}

func TestTableOfAnotherShapeIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"column missing":   `ALTER TABLE outbox_events DROP COLUMN last_error`,
		"column added":     `ALTER TABLE outbox_events ADD COLUMN status text`,
		"type differs":     `ALTER TABLE outbox_events ALTER COLUMN attempt_count TYPE bigint`,
		"nullable differs": `ALTER TABLE outbox_events ALTER COLUMN payload_json DROP NOT NULL`,
		"default differs":  `ALTER TABLE outbox_events ALTER COLUMN attempt_count DROP DEFAULT`,
		"no primary key":   `ALTER TABLE outbox_events DROP CONSTRAINT outbox_events_pkey`,
		"enum value gone":  `ALTER TYPE event_type_enum RENAME VALUE 'ad_paused' TO 'ad_stopped'`,
		"of another owner": `ALTER TABLE outbox_events OWNER TO pg_monitor`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := adopted(t, 1)
			exec(t, pool, change)
			before := catalogue(t, pool)
			_, err := migrate.Up(t.Context(), pool, migrate.Options{})
			var partial *migrate.PartialError
			require.ErrorAs(t, err, &partial)
			require.Equal(t, "OX200", state(t, err))
			require.NotEmpty(t, partial.Hint())
			exec(t, pool, "DROP TABLE IF EXISTS outbox_schema_version")
			require.Empty(t, differ(before, catalogue(t, pool)), "what is not ours is left alone")
		})
	}
}
