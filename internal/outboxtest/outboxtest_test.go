package outboxtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

func count(t *testing.T, db *outboxtest.Database, sql string) int {
	t.Helper()
	var n int
	require.NoError(t, db.Pool.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

func TestDBIsMigratedAndPrivate(t *testing.T) {
	t.Parallel()
	first, second := outboxtest.DB(t), outboxtest.DB(t)
	require.Zero(t, count(t, first, "SELECT count(*) FROM outbox_events"))

	_, err := first.Pool.Exec(t.Context(), "CREATE TABLE mine ()")
	require.NoError(t, err)
	require.Zero(t, count(t, second, "SELECT count(*) FROM pg_class WHERE relname = 'mine'"))
	require.Zero(t, count(t, outboxtest.EmptyDB(t), "SELECT count(*) FROM pg_class WHERE relname LIKE 'outbox%'"))
}

func TestDBIsDroppedWithOpenSessions(t *testing.T) {
	t.Parallel()
	admin := outboxtest.EmptyDB(t)
	var name string
	t.Run("user", func(t *testing.T) {
		db := outboxtest.DB(t)
		name = db.Name
		conn, err := pgx.Connect(context.Background(), db.URL)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		require.Equal(t, 1, count(t, admin, "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"))
	})
	require.Zero(t, count(t, admin, "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"))
}

func TestPostgresOfItsOwnSurvivesACrash(t *testing.T) {
	t.Parallel()
	server, db := outboxtest.Postgres(t, devstack.PostgresParams{})
	_, err := db.Pool.Exec(t.Context(), "CREATE TABLE kept AS SELECT 1")
	require.NoError(t, err)
	require.NoError(t, server.Restart(t.Context()))
	db.Pool.Reset()
	require.Equal(t, 1, count(t, db, "SELECT count(*) FROM kept"))
}

func TestRedisIsPrivateAndReturnedEmpty(t *testing.T) {
	t.Parallel()
	for range 20 {
		t.Run("user", func(t *testing.T) {
			t.Parallel()
			db := outboxtest.Redis(t)
			size, err := db.Client.DBSize(t.Context()).Result()
			require.NoError(t, err)
			require.Zero(t, size)
			require.NoError(t, db.Client.Set(t.Context(), "key", "value", 0).Err())
		})
	}
	server, db := outboxtest.RedisServer(t)
	require.NoError(t, server.Restart(t.Context()))
	require.NoError(t, db.Client.Ping(t.Context()).Err())
}

func TestPubSubIsPrivate(t *testing.T) {
	t.Parallel()
	first, second := outboxtest.PubSub(t), outboxtest.PubSub(t)
	require.NotEqual(t, first.Addr(), second.Addr())
}

func BenchmarkDB(b *testing.B) {
	outboxtest.DB(b)
	for b.Loop() {
		outboxtest.DB(b)
	}
}
