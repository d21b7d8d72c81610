package idem_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/internal/idem"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// server is a Redis of the test's own, so that it can be stopped, flushed and
// misconfigured without disturbing its neighbours.
type server struct {
	port int
	dir  string
	args []string
	proc *exec.Cmd
}

// startRedis runs a real redis-server. OUTBOXCTL_TEST_REDIS_SERVER names
// another binary, which is how older versions are tried.
func startRedis(t *testing.T, args ...string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{port: l.Addr().(*net.TCPAddr).Port, dir: t.TempDir(), args: args}
	require.NoError(t, l.Close())
	s.start(t)
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	bin := os.Getenv("OUTBOXCTL_TEST_REDIS_SERVER")
	if bin == "" {
		bin = "redis-server"
	}
	args := append([]string{"--port", fmt.Sprint(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--appendonly", "no"}, s.args...)
	s.proc = exec.Command(bin, args...)
	require.NoError(t, s.proc.Start(), "these tests need redis-server")
	rdb := s.client(t)
	defer rdb.Close()
	require.Eventually(t, func() bool {
		return rdb.Ping(context.Background()).Err() == nil
	}, 10*time.Second, 5*time.Millisecond)
}

func (s *server) stop() {
	if s.proc != nil {
		_ = s.proc.Process.Kill()
		_ = s.proc.Wait()
		s.proc = nil
	}
}

func (s *server) url() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", s.port) }

func (s *server) client(t *testing.T) *redis.Client {
	t.Helper()
	rdb, err := idem.NewClient(s.url())
	require.NoError(t, err)
	return rdb
}

func newKeeper(t *testing.T, rdb redis.UniversalClient, cfg idem.Config) *idem.Keeper {
	t.Helper()
	t.Cleanup(func() { _ = rdb.Close() })
	k, err := idem.New(rdb, cfg)
	require.NoError(t, err)
	return k
}

// answerInfo pretends to be a server of another version.
type answerInfo string

func (a answerInfo) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a answerInfo) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if info, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			info.SetVal(string(a))
			return nil
		}
		return next(ctx, cmd)
	}
}

func (a answerInfo) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
