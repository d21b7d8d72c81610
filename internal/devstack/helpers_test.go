package devstack_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// stateDir is a folder the servers' unprivileged user can enter, which t.TempDir is not when the tests run as root.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "outboxctl-stack-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func startPostgres(t *testing.T, params devstack.PostgresParams) *devstack.Postgres {
	t.Helper()
	if params.Dir == "" {
		params.Dir = stateDir(t)
	}
	server, err := devstack.StartPostgres(t.Context(), params)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var value string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func startRedis(t *testing.T, params devstack.RedisParams) (*devstack.Redis, *redis.Client) {
	t.Helper()
	params.Dir = stateDir(t)
	server, err := devstack.StartRedis(t.Context(), params)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })

	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	options.MaxRetries, options.DialerRetries = -1, 1
	options.ReadTimeout = 100 * time.Millisecond
	client := redis.NewClient(options)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return server, client
}
