package idem_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

func guard(t *testing.T, rdb redis.UniversalClient, consumer string) *consume.Guard {
	t.Helper()
	g, err := consume.New(rdb, consumer, consume.Options{})
	require.NoError(t, err)
	return g
}

func TestLookupAndForget(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := outboxtest.Redis(t).Client
	search, compliance := guard(t, rdb, "search"), guard(t, rdb, "compliance")
	k := idem.New(rdb, consume.DefaultTTL)

	done, running := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	began := time.Now().Truncate(time.Millisecond)
	_, err := search.CheckAndMarkProcessed(ctx, done, time.Hour)
	require.NoError(t, err)
	_, _, err = compliance.Begin(ctx, running)
	require.NoError(t, err)

	consumers := []string{"compliance", "search"}
	entries, err := k.LookupMany(ctx, consumers, []uuid.UUID{done, running})
	require.NoError(t, err)
	states := make([]consume.State, 0, len(entries))
	for _, e := range entries {
		states = append(states, e.State)
	}
	require.Equal(t, []consume.State{consume.StateUnknown, consume.StateProcessed, consume.StateProcessing, consume.StateUnknown}, states)
	require.Contains(t, entries[1].Owner, "/", "host and process")
	require.WithinRange(t, entries[1].Since, began, time.Now())
	require.Greater(t, entries[1].ExpiresIn, 59*time.Minute)

	forgotten, err := k.Forget(ctx, entries[1])
	require.NoError(t, err)
	require.True(t, forgotten)
	claim, state, err := search.Begin(ctx, done)
	require.NoError(t, err)
	require.Equal(t, consume.StateUnknown, state)
	forgotten, err = k.Forget(ctx, entries[1])
	require.NoError(t, err)
	require.False(t, forgotten, "a key taken since it was shown is left alone")
	held, err := claim.Extend(ctx)
	require.NoError(t, err)
	require.True(t, held)

	many := make([]uuid.UUID, 1201) // more than two pipelines
	for i := range many {
		many[i] = uuid.Must(uuid.NewV7())
	}
	many[1200] = running
	entries, err = k.LookupMany(ctx, []string{"compliance"}, many)
	require.NoError(t, err)
	require.Len(t, entries, 1201)
	require.Equal(t, consume.StateUnknown, entries[0].State)
	require.Equal(t, consume.StateProcessing, entries[1200].State)

	_, err = k.Lookup(ctx, "a:b", done)
	require.ErrorIs(t, err, consume.ErrConsumerName)
}

func TestConsumersAreThoseThatMayHaveKeys(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := outboxtest.Redis(t).Client
	require.NoError(t, guard(t, rdb, "search").Announce(ctx))
	require.NoError(t, guard(t, rdb, "compliance").Announce(ctx))
	old := float64(time.Now().Add(-2 * time.Hour).UnixMilli())
	require.NoError(t, rdb.ZAdd(ctx, consume.ConsumersKey, redis.Z{Score: old, Member: "retired"}, redis.Z{Score: old, Member: "not:ours"}).Err())

	found, err := idem.New(rdb, time.Hour).Consumers(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"compliance", "search"}, found)
	found, err = idem.New(rdb, 3*time.Hour).Consumers(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"compliance", "retired", "search"}, found)
}

// The in-process server stands in where no Redis is installed, so guard and
// keeper have to work on it too.
func TestTheInProcessServerWillDo(t *testing.T) {
	t.Parallel()
	server, err := devstack.StartRedis(t.Context(), devstack.RedisParams{Dir: t.TempDir(), InProcess: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	rdb, err := consume.NewClient(server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	g := guard(t, rdb, "c")
	_, err = g.Check(t.Context())
	require.NoError(t, err)
	id := uuid.Must(uuid.NewV7())
	for _, want := range []consume.Outcome{consume.Processed, consume.Duplicate} {
		outcome, err := g.Process(t.Context(), id.String(), func(context.Context) error { return nil })
		require.NoError(t, err)
		require.Equal(t, want, outcome)
	}
	k := idem.New(rdb, consume.DefaultTTL)
	entry, err := k.Lookup(t.Context(), "c", id)
	require.NoError(t, err)
	require.Equal(t, consume.StateProcessed, entry.State)
	forgotten, err := k.Forget(t.Context(), entry)
	require.NoError(t, err)
	require.True(t, forgotten)
}
