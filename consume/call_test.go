package consume_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

// slowTrips answers every script with yes, a moment after it was asked, and remembers how many were asked together.
type slowTrips struct {
	mu    sync.Mutex
	sizes []int
}

func (*slowTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*slowTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *slowTrips) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		s.mu.Lock()
		s.sizes = append(s.sizes, len(cmds))
		s.mu.Unlock()
		time.Sleep(time.Second / 2)
		for _, cmd := range cmds {
			cmd.(*redis.Cmd).SetVal("")
		}
		return nil
	}
}

func (s *slowTrips) guard(t *testing.T) *consume.Guard {
	t.Helper()
	rdb, err := consume.NewClient("redis://127.0.0.1:1")
	require.NoError(t, err)
	rdb.AddHook(s)
	return guardOn(t, rdb, consume.Options{})
}

// What deliveries ask while two round trips are under way is asked in one.
func TestDeliveriesShareRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const deliveries = 50
		trips := &slowTrips{}
		guard := trips.guard(t)
		var wg sync.WaitGroup
		begin := func() {
			wg.Go(func() {
				_, state, err := guard.Begin(t.Context(), uuid.New())
				require.NoError(t, err)
				require.Equal(t, consume.StateUnknown, state)
			})
			synctest.Wait()
		}
		for range deliveries {
			begin()
		}
		wg.Wait()
		require.Equal(t, []int{1, 32, deliveries - 33}, trips.sizes, "the first at once, a quarter of the most beside it, the rest")
	})
}

// A lease that Redis has granted is not left behind because the worker was told to stop meanwhile.
func TestAnAnswerUnderWayIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guard := (&slowTrips{}).guard(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/4, cancel)
		claim, state, err := guard.Begin(ctx, uuid.New())
		require.NoError(t, err)
		require.Equal(t, consume.StateUnknown, state)
		require.NotNil(t, claim)

		_, _, err = guard.Begin(ctx, uuid.New())
		require.ErrorIs(t, err, context.Canceled, "nothing is asked any more")
	})
}

// A server that was restarted, or told SCRIPT FLUSH, gets its scripts again.
func TestScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t).client(t)
	guard := guardOn(t, rdb, consume.Options{})
	id := uuid.New()
	claim, _, err := guard.Begin(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	mark, err := claim.Done(t.Context())
	require.NoError(t, err)
	require.Equal(t, consume.Marked, mark)
	require.Equal(t, consume.StateProcessed, stateOf(t, rdb, id))
}
