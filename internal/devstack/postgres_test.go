package devstack_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

func TestPostgresServesAndKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)

	first, err := devstack.StartPostgres(t.Context(), devstack.PostgresParams{Dir: dir, Durable: true})
	require.NoError(t, err)
	require.Equal(t, first.Version(), strings.Fields(query(t, first.URL("postgres"), "SHOW server_version"))[0])
	require.Equal(t, "on", query(t, first.URL("postgres"), "SHOW fsync"))
	execute(t, first.URL("postgres"), "CREATE TABLE kept AS SELECT 'still here' AS word")
	require.NoError(t, first.Stop(t.Context()))
	require.ErrorIs(t, syscall.Kill(first.PID(), 0), syscall.ESRCH)

	second := startPostgres(t, devstack.PostgresParams{Dir: dir, Settings: map[string]string{"work_mem": "7MB"}})
	require.Equal(t, "still here", query(t, second.URL("postgres"), "SELECT word FROM kept"))
	require.Equal(t, "off", query(t, second.URL("postgres"), "SHOW fsync"))
	require.Equal(t, "7MB", query(t, second.URL("postgres"), "SHOW work_mem"))
	require.Equal(t, "UTF8 C", query(t, second.URL("postgres"),
		"SELECT pg_encoding_to_char(encoding) || ' ' || datcollate FROM pg_database WHERE datname = current_database()"))
}

func TestPostgresRunsUnprivilegedOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	server := startPostgres(t, devstack.PostgresParams{})

	var stat syscall.Stat_t
	require.NoError(t, syscall.Stat(query(t, server.URL("postgres"), "SHOW data_directory"), &stat))
	require.NotZero(t, stat.Uid)
	require.Equal(t, "127.0.0.1|", query(t, server.URL("postgres"),
		"SELECT current_setting('listen_addresses') || '|' || current_setting('unix_socket_directories')"))
}

func TestPostgresRestartBreaksConnectionsAndKeepsPort(t *testing.T) {
	t.Parallel()
	server := startPostgres(t, devstack.PostgresParams{})
	url, pid := server.URL("postgres"), server.PID()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	execute(t, url, "CREATE TABLE kept AS SELECT 'still here' AS word")

	require.NoError(t, server.Restart(t.Context()))

	require.Error(t, conn.Ping(t.Context()))
	require.NoError(t, conn.Close(t.Context()))
	require.NotEqual(t, pid, server.PID())
	require.Equal(t, url, server.URL("postgres"))
	require.Equal(t, "still here", query(t, url, "SELECT word FROM kept"))

	require.NoError(t, server.Kill())
	_, err = pgx.Connect(t.Context(), url)
	require.Error(t, err)
	require.NoError(t, server.Restart(t.Context()), "a killed server can come back")
}

func TestPostgresSeveralAtOnce(t *testing.T) {
	t.Parallel()
	ports := map[int]bool{}
	for range 3 {
		ports[startPostgres(t, devstack.PostgresParams{}).Port()] = true
	}
	require.Len(t, ports, 3)
}

func TestPostgresReportsTakenPort(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	port := listener.Addr().(*net.TCPAddr).Port

	_, err = devstack.StartPostgres(t.Context(), devstack.PostgresParams{Dir: stateDir(t), Port: port})
	require.ErrorContains(t, err, "the port is taken")

	server := startPostgres(t, devstack.PostgresParams{Port: port, AnyPort: true})
	require.NotEqual(t, port, server.Port())
}

func TestPostgresSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	_, err := devstack.StartPostgres(t.Context(), devstack.PostgresParams{
		Dir: stateDir(t), Settings: map[string]string{"no_such_setting": "1"},
	})
	require.ErrorContains(t, err, `unrecognized configuration parameter "no_such_setting"`)
}

func TestPostgresGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := devstack.StartPostgres(ctx, devstack.PostgresParams{Dir: dir})
	require.Error(t, err)

	// An interrupted initdb must not pass for a cluster.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "postgres.new", "base"), 0o700))
	startPostgres(t, devstack.PostgresParams{Dir: dir})
}

func TestPostgresEndsItsLeftoverOnly(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	leftover, err := devstack.StartPostgres(t.Context(), devstack.PostgresParams{Dir: dir})
	require.NoError(t, err)
	bystander := startPostgres(t, devstack.PostgresParams{})

	var log strings.Builder
	next := startPostgres(t, devstack.PostgresParams{Dir: dir, Log: &log})
	require.Contains(t, log.String(), fmt.Sprintf("ending process %d", leftover.PID()))
	require.ErrorIs(t, syscall.Kill(leftover.PID(), 0), syscall.ESRCH)

	// The lock file now names a living server that works elsewhere.
	require.NoError(t, next.Kill())
	lock := filepath.Join(dir, "postgres", "postmaster.pid")
	require.NoError(t, os.WriteFile(lock, fmt.Appendf(nil, "%d\n", bystander.PID()), 0o600))
	startPostgres(t, devstack.PostgresParams{Dir: dir})
	require.Equal(t, "1", query(t, bystander.URL("postgres"), "SELECT '1'"))
}
