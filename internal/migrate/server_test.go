package migrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestOldServerIsRefused(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	for _, run := range []func() error{
		func() error { _, err := migrate.Up(t.Context(), pool, migrate.Options{}.Oldest(99)); return err },
		func() error { _, err := migrate.Scripts(t.Context(), pool, migrate.Options{}.Oldest(99)); return err },
	} {
		refusal(t, run(), fault.Precondition, "PostgreSQL "+queryOne[string](t, pool, `SHOW server_version`)+" is too old, 14 is the oldest that is supported",
			"upgrade to PostgreSQL 14 or newer")
	}
	require.Empty(t, catalogue(t, pool))
}

// What only speaks PostgreSQL's protocol would lose order and leases without a word.
func TestServersThatAreNotPostgreSQLAreRefused(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"CockroachDB CCL v24.3.1 (x86_64-pc-linux-gnu, built 2024/12/09)":        "CockroachDB",
		"PostgreSQL 15.2-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu, compiled by x": "YugabyteDB",
	} {
		pool := emptyDB(t)
		exec(t, pool, "CREATE OR REPLACE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE AS $$ SELECT '"+version+"' $$")
		_, err := migrate.Up(t.Context(), pool, migrate.Options{})
		refusal(t, err, fault.Precondition, want+" is not supported: its advisory locks and notifications do nothing, and order and leases rely on them",
			"use PostgreSQL 14 or newer")
		require.Empty(t, catalogue(t, pool))
	}
}

// The migrating role would run what others planted in the schema.
func TestSchemaWithPlantedFunctionsIsRefused(t *testing.T) {
	t.Parallel()
	admin := outboxtest.EmptyDB(t).Pool
	stranger := pgIdent(t, "stranger")
	exec(t, admin, "CREATE ROLE "+stranger)
	t.Cleanup(func() { dropRole(t, admin, stranger) })
	for name, tc := range map[string]struct{ plant, says string }{
		"function": {`CREATE FUNCTION pg_relation_size(text) RETURNS bigint LANGUAGE sql AS 'SELECT 1/0'`, "pg_relation_size(text) of " + stranger},
		"operator": {`CREATE FUNCTION joined(name, text) RETURNS text LANGUAGE sql AS 'SELECT 1/0';
			CREATE OPERATOR || (LEFTARG = name, RIGHTARG = text, FUNCTION = joined)`, "operator || (name, text) of " + stranger},
	} {
		t.Run(name, func(t *testing.T) {
			pool := outboxtest.EmptyDB(t).Pool
			exec(t, pool, `GRANT CREATE ON SCHEMA public TO PUBLIC`)
			exec(t, pool, `CREATE FUNCTION format(int) RETURNS text LANGUAGE sql AS 'SELECT 1'`) // the owner may
			exec(t, pool, "SET ROLE "+stranger+"; "+tc.plant+"; RESET ROLE")
			before := catalogue(t, pool)
			_, err := migrate.Up(t.Context(), pool, migrate.Options{})
			refusal(t, err, fault.Precondition, "schema public has functions or operators of others that hide PostgreSQL's own: "+tc.says,
				"find out who made them and why; then drop them and REVOKE CREATE ON SCHEMA public FROM PUBLIC")
			require.Empty(t, differ(before, catalogue(t, pool)))
		})
	}
}

func TestMigrateTellsWhoMayCreateInTheSchema(t *testing.T) {
	t.Parallel()
	admin := outboxtest.EmptyDB(t).Pool
	stranger := pgIdent(t, "stranger")
	exec(t, admin, "CREATE ROLE "+stranger)
	t.Cleanup(func() { dropRole(t, admin, stranger) })
	pool := emptyDB(t)
	exec(t, pool, `REVOKE CREATE ON SCHEMA public FROM PUBLIC`) // which PostgreSQL 14 grants
	res, err := migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	require.Equal(t, "public", res.Schema)
	require.Empty(t, res.Creators)
	exec(t, pool, `GRANT CREATE ON SCHEMA public TO PUBLIC, `+stranger)
	res, err = migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"PUBLIC", stranger}, res.Creators)
}
