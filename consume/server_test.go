package consume_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/consume"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// redisServer is a Redis of the test's own, so that it can be stopped, flushed and
// misconfigured without disturbing its neighbours.
type redisServer struct {
	port int
	dir  string
	args []string
	proc *exec.Cmd
}

// startRedis runs a real redis-server. OUTBOXCTL_TEST_REDIS_SERVER names
// another binary, which is how older versions are tried.
func startRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	s, err := newRedisServer(t.TempDir(), args...)
	require.NoError(t, err)
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func newRedisServer(dir string, args ...string) (*redisServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &redisServer{port: l.Addr().(*net.TCPAddr).Port, dir: dir, args: args}, l.Close()
}

// exampleRedis is the server of the examples, which have no testing.T.
func exampleRedis() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "consume-example-")
	if err != nil {
		panic(err)
	}
	s, err := newRedisServer(dir)
	if err == nil {
		err = s.launch()
	}
	if err != nil {
		panic(err)
	}
	return s.url(), func() { s.stop(); _ = os.RemoveAll(dir) }
}

func (s *redisServer) start(t *testing.T) {
	t.Helper()
	require.NoError(t, s.launch(), "these tests need redis-server")
}

// launch starts the server and waits until it answers.
func (s *redisServer) launch() error {
	args := append([]string{"--port", fmt.Sprint(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--appendonly", "no"}, s.args...)
	s.proc = exec.Command(cmp.Or(os.Getenv("OUTBOXCTL_TEST_REDIS_SERVER"), "redis-server"), args...)
	if err := s.proc.Start(); err != nil {
		return err
	}
	rdb, err := consume.NewClient(s.url())
	if err != nil {
		return err
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if err = rdb.Ping(ctx).Err(); err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (s *redisServer) stop() {
	if s.proc != nil {
		_ = s.proc.Process.Kill()
		_ = s.proc.Wait()
		s.proc = nil
	}
}

func (s *redisServer) url() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", s.port) }

func (s *redisServer) client(t *testing.T) *redis.Client {
	t.Helper()
	rdb, err := consume.NewClient(s.url())
	require.NoError(t, err)
	return rdb
}

// guardOn returns the guard of the consumer "c".
func guardOn(t *testing.T, rdb redis.UniversalClient, opts consume.Options) *consume.Guard {
	t.Helper()
	t.Cleanup(func() { _ = rdb.Close() })
	g, err := consume.New(rdb, "c", opts)
	require.NoError(t, err)
	return g
}

// stateOf is what Redis knows about the event.
func stateOf(t *testing.T, rdb *redis.Client, id uuid.UUID) consume.State {
	t.Helper()
	value, err := rdb.Get(t.Context(), consume.Key("c", id)).Result()
	if errors.Is(err, redis.Nil) {
		return consume.StateUnknown
	}
	require.NoError(t, err)
	state, _, _ := consume.ParseValue(value)
	return state
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
