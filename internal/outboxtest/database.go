package outboxtest

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// poolSize leaves room for parallel tests below the server's limit of connections.
const poolSize = 8

// Database is one test's own database.
type Database struct {
	Name string
	URL  string
	// Pool connects as superuser; it is closed when the test ends.
	Pool *pgxpool.Pool
}

// DB returns a fresh, fully migrated database, dropped when the test ends.
func DB(t testing.TB) *Database {
	t.Helper()
	require.NoError(t, shared.usePostgres())
	return newDatabase(t, " TEMPLATE "+template)
}

// EmptyDB returns a fresh database without any migration, in which PUBLIC may create nothing:
// PostgreSQL 14 lets it.
func EmptyDB(t testing.TB) *Database {
	t.Helper()
	require.NoError(t, shared.usePostgres())
	db := newDatabase(t, " TEMPLATE template0")
	_, err := db.Pool.Exec(context.Background(), "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	require.NoError(t, err)
	return db
}

func newDatabase(t testing.TB, clause string) *Database {
	t.Helper()
	// Neither the creation nor the removal may be cut short by the test's context, which is over when
	// cleanups run.
	ctx := context.Background()
	name := shared.nextName()
	_, err := shared.admin.Exec(ctx, "CREATE DATABASE "+name+clause+shared.copying)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := shared.admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
	})
	url := shared.postgres.URL(name) + "&connect_timeout=60" // a busy machine may stand still for a while
	return &Database{Name: name, URL: url, Pool: Pool(t, url)}
}

// Pool opens a pool of connections and closes it when the test ends.
func Pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = poolSize
	// What a server's view of its sessions shows: which test is it?
	config.ConnConfig.RuntimeParams["application_name"] = t.Name()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// Postgres starts a server of the test's own, for tests that crash or restart it, with a migrated
// database named outbox.
func Postgres(t testing.TB, params devstack.PostgresParams) (*devstack.Postgres, *Database) {
	t.Helper()
	if params.Dir == "" {
		dir, err := shared.serverDir()
		require.NoError(t, err)
		params.Dir = dir
	}
	ctx := context.Background()
	server, err := startPostgres(ctx, os.Getenv(runEnv), params)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })

	const name = "outbox"
	_, err = Pool(t, server.URL("postgres")).Exec(ctx, "ALTER DATABASE "+template+" RENAME TO "+name)
	require.NoError(t, err)
	return server, &Database{Name: name, URL: server.URL(name), Pool: Pool(t, server.URL(name))}
}
