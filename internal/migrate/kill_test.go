package migrate_test

import (
	"context"
	"os"
	osexec "os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

// childURL makes this test binary a process that migrates a database and nothing else; see TestMain.
const childURL = "OUTBOX_TEST_MIGRATE_URL"

// migrateAsChild is the child's whole life.
func migrateAsChild(url string) int {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return 1
	}
	defer pool.Close()
	if _, err := migrate.Up(ctx, pool, migrate.Options{}); err != nil {
		return 1
	}
	return 0
}

// startChild runs a migration in a process of its own.
func startChild(t *testing.T, pool *pgxpool.Pool) *osexec.Cmd {
	t.Helper()
	child := osexec.Command(os.Args[0])
	child.Env = append(os.Environ(), childURL+"="+pool.Config().ConnString())
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	return child
}

// adopted gives a database that has the locked table from elsewhere, with rows.
func adopted(t *testing.T, rows int) *pgxpool.Pool {
	t.Helper()
	pool := emptyDB(t)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{To: 1})
	require.NoError(t, err)
	exec(t, pool, "DROP TABLE outbox_schema_version")
	// created_at runs against the order of insertion, so that a backfill in heap order would be seen.
	exec(t, pool, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at)
		SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', now() - n * interval '1 second'
		  FROM generate_series(1, $1::int) AS n`, rows)
	return pool
}

// finished checks that the schema is whole and the old rows are in order, before the new ones.
func finished(t *testing.T, pool *pgxpool.Pool, old, fresh int64) {
	t.Helper()
	require.Empty(t, differ(catalogue(t, migrated(t)), catalogue(t, pool)))
	require.Equal(t, old+fresh, queryOne[int64](t, pool, `SELECT count(DISTINCT seq) FROM outbox_events`))
	require.Equal(t, int64(0), queryOne[int64](t, pool, `
		SELECT count(*) FROM (SELECT created_at, lag(created_at) OVER (ORDER BY seq) AS previous FROM outbox_events) AS o
		 WHERE created_at < previous`), "seq follows created_at")
	exec(t, pool, insert)
	require.Equal(t, int64(1), queryOne[int64](t, pool,
		`SELECT count(*) FROM outbox_events e WHERE seq = (SELECT max(seq) FROM outbox_events) AND created_at = (SELECT max(created_at) FROM outbox_events)`),
		"the identity continues above everything")
}

// stallIndexBuilds opens a transaction whose snapshot every concurrent index build must wait for, and which locks no
// table of ours, so that everything before such a build goes through.
func stallIndexBuilds(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT count(*) FROM pg_class")
	require.NoError(t, err)
	release = func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	t.Cleanup(release)
	return release
}

// holdRow locks the oldest row, which stops the backfill short of its end until release.
func holdRow(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM outbox_events ORDER BY created_at LIMIT 1 FOR UPDATE`)
	require.NoError(t, err)
	release = func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	t.Cleanup(release)
	return release
}

func TestKilledInTheBackfill(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(t *testing.T, pool *pgxpool.Pool) (start, kill func()){
		"backend terminated": func(t *testing.T, pool *pgxpool.Pool) (start, kill func()) {
			done := make(chan error, 1)
			start = func() {
				go func() {
					_, err := migrate.Up(t.Context(), pool, migrate.Options{})
					done <- err
				}()
			}
			return start, func() {
				exec(t, pool, terminateRunner)
				err := <-done
				var partial *migrate.PartialError
				require.ErrorAs(t, err, &partial)
				require.Equal(t, "00002_order_events.sql", partial.Failed.Name)
				require.Len(t, partial.Applied, 1)
			}
		},
		"process killed": func(t *testing.T, pool *pgxpool.Pool) (start, kill func()) {
			var child *osexec.Cmd
			start = func() { child = startChild(t, pool) }
			return start, func() {
				require.NoError(t, child.Process.Kill())
				require.Error(t, child.Wait())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := adopted(t, 5000)
			start, kill := kill(t, pool)
			goOn := stallIndexBuilds(t, pool)
			start()
			// Any earlier, and the build would wait for our lock's snapshot, too.
			eventually(t, pool, buildWaits)
			letGo := holdRow(t, pool)
			goOn()
			eventually(t, pool, halfFilled)
			kill()
			exec(t, pool, insert) // producers go on with a half-migrated table
			letGo()

			res, err := migrate.Up(t.Context(), pool, migrate.Options{})
			require.NoError(t, err)
			require.Equal(t, int64(1), res.From)
			// The row that was held got its number last, so the order is checked on the others.
			exec(t, pool, `ALTER TABLE outbox_events DISABLE TRIGGER outbox_events_refuse_delete`)
			exec(t, pool, `DELETE FROM outbox_events WHERE created_at = (SELECT min(created_at) FROM outbox_events)`)
			exec(t, pool, `ALTER TABLE outbox_events ENABLE TRIGGER outbox_events_refuse_delete`)
			finished(t, pool, 4999, 1)
		})
	}
}

// An index build waits for every older transaction; killed then, it leaves an invalid index behind.
func TestKilledInAnIndexBuild(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 100)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{To: 2})
	require.NoError(t, err)
	goOn := stallIndexBuilds(t, pool)
	for range 3 {
		child := startChild(t, pool)
		eventually(t, pool, invalidIndex)
		require.NoError(t, child.Process.Kill())
		require.Error(t, child.Wait())
		eventually(t, pool, runnerGone)
		require.True(t, queryOne[bool](t, pool, invalidIndex), "the leftover this test is about")
	}
	goOn()
	_, err = migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	finished(t, pool, 100, 0)
}

const (
	halfFilled = `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'outbox_events'::regclass AND attname = 'seq' AND NOT attisdropped)
		AND to_regclass('outbox_events_old_seq') IS NOT NULL
		AND (SELECT pg_sequence_last_value(to_regclass('outbox_events_old_seq')) >= 4999)`
	buildWaits   = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'virtualxid')`
	invalidIndex = `SELECT EXISTS (SELECT FROM pg_index WHERE indrelid = 'outbox_events'::regclass AND NOT indisvalid)`
	runners      = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	terminateRunner = `SELECT pg_terminate_backend(pid) FROM (` + runners + `) AS r`
	runnerGone      = `SELECT NOT EXISTS (` + runners + `)`
)
