package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func latest(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	v, err := migrate.Version(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	return v.Binary
}

// What --dry-run prints makes the schema that Up makes, and Status knows of it.
func TestScriptsMakeTheSchema(t *testing.T) {
	t.Parallel()
	psql, err := osexec.LookPath("psql")
	require.NoError(t, err)
	for name, pool := range map[string]*pgxpool.Pool{"empty": emptyDB(t), "adopted": adopted(t, 3000)} {
		for version := range latest(t, pool) {
			// One at a time, as a tool applies files.
			scripts, err := migrate.Scripts(t.Context(), pool, migrate.Options{To: version + 1, Types: migrate.TypesEnum})
			require.NoError(t, err)
			require.Len(t, scripts, 1)
			require.False(t, regexp.MustCompile(`@\w+@`).MatchString(scripts[0].SQL), "a placeholder in %s", scripts[0].Name)
			file := filepath.Join(t.TempDir(), scripts[0].Name)
			require.NoError(t, os.WriteFile(file, []byte(scripts[0].SQL), 0o600))
			out, err := osexec.CommandContext(t.Context(), psql, "-v", "ON_ERROR_STOP=1", "-qf", file, pool.Config().ConnString()).CombinedOutput()
			require.NoError(t, err, "%s: %s", name, out)
			v, err := migrate.Version(t.Context(), pool, migrate.Options{})
			require.NoError(t, err)
			require.Equal(t, version+1, v.Database, name)
		}
		require.Empty(t, differ(catalogue(t, migrated(t)), catalogue(t, pool)), name)
		res, err := migrate.Up(t.Context(), pool, migrate.Options{})
		require.NoError(t, err)
		require.Empty(t, res.Ran, name)
	}
}

func TestTwoAtOnceOneApplies(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	var (
		second  migrate.Result
		err2    error
		done    sync.WaitGroup
		started sync.Once
		waits   = make(chan struct{})
		told    sync.Once
	)
	first, err := migrate.Up(t.Context(), pool, migrate.Options{Progress: func(string) {
		started.Do(func() {
			done.Go(func() {
				defer told.Do(func() { close(waits) }) // without a lock it never waits, and the figures below tell
				second, err2 = migrate.Up(t.Context(), pool, migrate.Options{Progress: func(line string) {
					if strings.Contains(line, "waiting for another migration") {
						told.Do(func() { close(waits) })
					}
				}})
			})
			<-waits
		})
	}})
	done.Wait()
	require.NoError(t, err)
	require.NoError(t, err2)
	require.Len(t, first.Ran, int(latestCount(t, pool)))
	require.Empty(t, second.Ran, "nothing was left for the second")
	require.Positive(t, second.Waited)
	require.Equal(t, first.To, second.To)
	require.Equal(t, latestCount(t, pool), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_schema_version WHERE version_id > 0`))
}

func latestCount(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	list, err := migrate.Status(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	return int64(len(list))
}

func TestWaitForAnotherRunIsBounded(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	holder, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer holder.Release()
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_lock($1)", migrate.LockKey)
	require.NoError(t, err)

	_, err = migrate.Up(t.Context(), pool, migrate.Options{Wait: -1})
	refusal(t, err, fault.Precondition, fmt.Sprintf("another migration (backend %d) holds the lock, waited 0s", holder.Conn().PgConn().PID()),
		"wait for it to finish and run the command again")
	require.Empty(t, catalogue(t, pool))
}

// A reader that never ends delays the migration; producers pass between its tries.
func TestLongReaderDelaysTheMigrationOnly(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{To: 1})
	require.NoError(t, err)
	reader, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = reader.Exec(t.Context(), "SELECT FROM outbox_events")
	require.NoError(t, err)

	tries := 0
	res, err := migrate.Up(t.Context(), pool, migrate.Options{LockTimeout: 20e6, Progress: func(line string) {
		if !strings.Contains(line, "another session holds a lock") {
			return
		}
		tries++
		_, err := pool.Exec(t.Context(), insert)
		require.NoError(t, err, "the waiting migration must not hold producers up")
		if tries == 2 {
			require.NoError(t, reader.Rollback(t.Context()))
		}
	}})
	require.NoError(t, err)
	// A busy machine may be late with a lock that is free, and 20 ms are not long.
	require.GreaterOrEqual(t, tries, 2)
	require.Equal(t, latest(t, pool), res.To)
	require.Equal(t, int64(tries), queryOne[int64](t, pool, "SELECT count(*) FROM outbox_events WHERE seq IS NOT NULL"))
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{To: 1})
	require.NoError(t, err)
	reader, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = reader.Exec(t.Context(), "SELECT FROM outbox_events")
	require.NoError(t, err)

	_, err = migrate.Up(t.Context(), pool, migrate.Options{LockTimeout: 20e6, RetryFor: -1})
	var partial *migrate.PartialError
	require.ErrorAs(t, err, &partial)
	require.True(t, migrate.IsLockTimeout(err))
	require.Equal(t, int64(2), partial.Failed.Version)
	require.Contains(t, partial.Hint(), "pg_stat_activity")
}

// A connection that may not write is not made to: what set it so meant it.
func TestAReadOnlyConnectionIsNotMigrated(t *testing.T) {
	t.Parallel()
	half := emptyDB(t)
	_, err := migrate.Up(t.Context(), half, migrate.Options{To: 3})
	require.NoError(t, err)
	for name, pool := range map[string]*pgxpool.Pool{"empty": emptyDB(t), "half migrated": half} {
		cfg := pool.Config()
		cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		reader, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		defer reader.Close()
		before := catalogue(t, pool)
		_, err = migrate.Up(t.Context(), reader, migrate.Options{})
		require.ErrorContains(t, err, "read-only", name)
		require.Empty(t, differ(before, catalogue(t, pool)), name)
	}
}

func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	for name, pool := range map[string]*pgxpool.Pool{"empty": emptyDB(t), "migrated": migrated(t)} {
		// A connection that may not write: any attempt to is an error here.
		cfg := pool.Config()
		cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		reader, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		defer reader.Close()
		// Held by another session, the lock must not matter to readers.
		exec(t, pool, "SELECT pg_advisory_lock($1)", migrate.LockKey)

		before := catalogue(t, pool)
		list, err := migrate.Status(t.Context(), reader, migrate.Options{})
		require.NoError(t, err)
		v, err := migrate.Version(t.Context(), reader, migrate.Options{})
		require.NoError(t, err)
		up, err := migrate.Scripts(t.Context(), reader, migrate.Options{})
		require.NoError(t, err)
		require.Empty(t, differ(before, catalogue(t, pool)))

		if name == "empty" {
			require.Empty(t, before)
			require.Equal(t, migrate.Versions{Database: 0, Binary: v.Binary, Pending: len(list)}, v)
			require.Len(t, up, len(list))
			require.Contains(t, up[0].SQL, "CREATE TABLE outbox_events")
		} else {
			require.Equal(t, migrate.Versions{Database: v.Binary, Binary: v.Binary}, v)
			require.Empty(t, up)
			require.False(t, list[0].AppliedAt.IsZero())
		}
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, "INSERT INTO outbox_schema_version (version_id, is_applied) VALUES (99999, true)")
	before := catalogue(t, pool)
	says := fmt.Sprintf("database schema version 99999 is not known to this binary, which ends at %d (unknown: [99999])", latest(t, pool))
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	refusal(t, err, fault.Precondition, says, "use the outboxctl version that migrated this database, or a newer one")
	_, err = migrate.Scripts(t.Context(), pool, migrate.Options{})
	refusal(t, err, fault.Precondition, says, "use the outboxctl version that migrated this database, or a newer one")
	require.Empty(t, differ(before, catalogue(t, pool)))
	list, err := migrate.Status(t.Context(), pool, migrate.Options{})
	require.NoError(t, err, "looking is always possible")
	require.Equal(t, migrate.StepUnknown, list[len(list)-1].State)
}

func TestUnknownVersionIsRefused(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{To: 99999})
	refusal(t, err, fault.NotFound, "no migration has version 99999", "outboxctl migrate status lists the versions")
	_, err = migrate.Scripts(t.Context(), pool, migrate.Options{To: 99999})
	refusal(t, err, fault.NotFound, "no migration has version 99999", "outboxctl migrate status lists the versions")
	require.Empty(t, catalogue(t, pool))
}

func TestStepThatTakesLongSaysSo(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 1)
	goOn := stallIndexBuilds(t, pool)
	told := false
	_, err := migrate.Up(t.Context(), pool, migrate.Options{Progress: func(line string) {
		if strings.HasPrefix(line, "00002_order_events.sql is still running") {
			told = true
			goOn()
		}
	}}.ReportEvery(1e6))
	require.NoError(t, err)
	require.True(t, told)
}

// A name that must be quoted is where a forgotten quote_ident shows. Each schema in turn gets the roles of the cluster.
func TestSchemaOfItsOwn(t *testing.T) {
	t.Parallel()
	server, _ := cluster(t)
	for _, schema := range []string{"shop", "OutBox", "My Box", `a"b.c`, "o'brien", "50%"} {
		t.Run(schema, func(t *testing.T) {
			quoted := pgx.Identifier{schema}.Sanitize()
			cfg := outboxtest.Pool(t, server.URL("postgres")).Config()
			cfg.ConnConfig.RuntimeParams["search_path"] = quoted
			pool := openPool(t, cfg)
			exec(t, pool, "CREATE SCHEMA "+quoted)
			_, err := migrate.Up(t.Context(), pool, migrate.Options{})
			require.NoError(t, err)
			require.Equal(t, []string{schema}, queryAll(t, pool,
				"SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE relname = 'outbox_dlq'"))
			require.Empty(t, queryAll(t, pool, "SELECT proname::text FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace"+
				" AND prosecdef AND proconfig IS NULL"), "search_path not pinned")
			// The function finds its schema, whatever the caller's search_path.
			_, err = pool.Exec(t.Context(), `SET ROLE outbox_emitter; SET search_path = pg_catalog;
				SELECT `+quoted+`.outbox_emit('order_created', NULL, gen_random_uuid(), '{}'); RESET ROLE; RESET search_path`)
			require.NoError(t, err)
			require.Equal(t, int64(1), queryOne[int64](t, pool, "SELECT count(*) FROM "+quoted+".outbox_events"))
			exec(t, pool, "DROP SCHEMA "+quoted+" CASCADE") // and with it the rights of the roles
		})
	}
}

// A dollar sign could end the text of a function.
func TestSchemaWithADollarSign(t *testing.T) {
	t.Parallel()
	cfg := emptyDB(t).Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = `"a$$b"`
	pool := openPool(t, cfg)
	exec(t, pool, `CREATE SCHEMA "a$$b"`)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	refusal(t, err, fault.Precondition, `schema "a$$b" has a dollar sign in its name`, "use a schema without one")
	_, err = migrate.Scripts(t.Context(), pool, migrate.Options{})
	refusal(t, err, fault.Precondition, `schema "a$$b" has a dollar sign in its name`, "use a schema without one")
}

// A pool of one connection must do: the run may not ask for a second one while it holds the first.
func TestPoolOfOne(t *testing.T) {
	t.Parallel()
	cfg := emptyDB(t).Config()
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	_, err = migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	require.Equal(t, "0", queryOne[string](t, pool, "SHOW lock_timeout"), "the run's settings do not stay in the pool")
}

func TestEveryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			cfg := emptyDB(t).Config()
			cfg.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			defer pool.Close()
			_, err = migrate.Up(t.Context(), pool, migrate.Options{})
			require.NoError(t, err)
		})
	}
}

func TestFailureNamesTheStepAndKeepsTheOnesBefore(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	files := fstest.MapFS{
		"00001_good.sql": {Data: []byte("-- +goose Up\nCREATE TABLE good ();\n")},
		"00002_bad.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE half ();\nSELECT 1/0;\n")},
	}
	res, err := migrate.Up(t.Context(), pool, migrate.Options{Migrations: files})
	var partial *migrate.PartialError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, []migrate.Step{{Version: 1, Name: "00001_good.sql"}}, partial.Applied)
	require.Equal(t, migrate.Step{Version: 2, Name: "00002_bad.sql"}, partial.Failed)
	require.Equal(t, "22012", state(t, errors.Unwrap(partial)))
	require.Len(t, res.Ran, 1)
	require.Equal(t, []string{"good", "outbox_schema_version"}, queryAll(t, pool,
		"SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY 1"))
}
