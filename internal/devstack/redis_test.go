package devstack_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

func TestRedisRestartsEmptyOnTheSamePort(t *testing.T) {
	t.Parallel()
	for name, params := range map[string]devstack.RedisParams{
		"installed":  {},
		"in-process": {InProcess: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := startRedis(t, params)
			url := server.URL()
			require.NoError(t, client.Set(t.Context(), "key", "value", 0).Err())

			require.NoError(t, server.Kill())
			require.Error(t, client.Ping(t.Context()).Err())
			require.NoError(t, server.Restart(t.Context()))

			require.Equal(t, url, server.URL())
			count, err := client.DBSize(t.Context()).Result()
			require.NoError(t, err)
			require.Zero(t, count)
		})
	}
}

func TestRedisTakesTheInstalledServer(t *testing.T) {
	t.Parallel()
	server, _ := startRedis(t, devstack.RedisParams{})
	if _, err := exec.LookPath("redis-server"); err != nil {
		require.Equal(t, "in-process", server.Kind)
		return
	}
	require.True(t, strings.HasPrefix(server.Kind, "redis-server "), server.Kind)

	inProcess, _ := startRedis(t, devstack.RedisParams{InProcess: true})
	require.Equal(t, "in-process", inProcess.Kind)
}

func TestRedisPauses(t *testing.T) {
	t.Parallel()
	server, client := startRedis(t, devstack.RedisParams{})
	if server.Kind == "in-process" {
		require.ErrorIs(t, server.Pause(), errors.ErrUnsupported)
		return
	}
	require.NoError(t, server.Pause())
	require.ErrorIs(t, client.Ping(t.Context()).Err(), os.ErrDeadlineExceeded, "it must not answer")
	require.NoError(t, server.Resume())
	require.NoError(t, client.Ping(t.Context()).Err())

	require.NoError(t, server.Pause(), "and Stop must end a paused server too")
}

// An in-process Redis whose TTLs stand still would keep every idempotency lease for ever.
func TestRedisInProcessExpiresKeys(t *testing.T) {
	t.Parallel()
	_, client := startRedis(t, devstack.RedisParams{InProcess: true})
	require.NoError(t, client.Set(t.Context(), "key", "value", time.Millisecond).Err())
	require.Eventually(t, func() bool {
		count, err := client.Exists(t.Context(), "key").Result()
		return err == nil && count == 0
	}, time.Minute, 5*time.Millisecond)
}

func TestRedisReportsTakenPort(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	port := listener.Addr().(*net.TCPAddr).Port

	for _, inProcess := range []bool{false, true} {
		params := devstack.RedisParams{Dir: stateDir(t), Port: port, InProcess: inProcess}
		_, err = devstack.StartRedis(t.Context(), params)
		require.Error(t, err)
		params.AnyPort = true
		server, _ := startRedis(t, params)
		require.NotEqual(t, port, server.Port())
	}
}
