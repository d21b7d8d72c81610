package outboxtest

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// Ensure makes topics and subscriptions at a broker, however busy the machine is.
func Ensure[P, A any](t testing.TB, ensure func(context.Context, P) (A, error), p P) {
	t.Helper()
	_, err := wait.Patiently(t.Context(), func(ctx context.Context) (A, error) { return ensure(ctx, p) })
	require.NoError(t, err)
}

// RedisDB is one test's own logical database.
type RedisDB struct {
	URL    string
	Client *redis.Client
}

// Redis returns an empty Redis database: of redis-server where it is installed, otherwise of the
// in-process server.
func Redis(t testing.TB) *RedisDB {
	t.Helper()
	require.NoError(t, shared.useRedis())
	number := <-shared.redisDBs
	url := strings.TrimSuffix(shared.redis.URL(), "0") + strconv.Itoa(number)
	client := redisClient(t, url)
	t.Cleanup(func() {
		// Runs before the client's own cleanup. The next test must find nothing.
		require.NoError(t, client.FlushDB(context.Background()).Err())
		shared.redisDBs <- number
	})
	return &RedisDB{URL: url, Client: client}
}

// RedisServer starts a server of the test's own, for tests that kill, restart or pause it.
func RedisServer(t testing.TB) (*devstack.Redis, *RedisDB) {
	t.Helper()
	dir, err := shared.serverDir()
	require.NoError(t, err)
	server, err := devstack.StartRedis(context.Background(), devstack.RedisParams{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	return server, &RedisDB{URL: server.URL(), Client: redisClient(t, server.URL())}
}

func redisClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	client := redis.NewClient(options)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// PubSub returns a Pub/Sub fake of the test's own, stopped when the test ends.
func PubSub(t testing.TB) *devstack.PubSub {
	t.Helper()
	fake, err := devstack.StartPubSub(context.Background(), devstack.PubSubParams{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		require.NoError(t, fake.Stop(ctx))
	})
	return fake
}
