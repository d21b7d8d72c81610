package consume_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

// The tests of this file run on a clock of their own (testing/synctest), so that minutes pass in no time. Their Redis is
// a function that answers scripts instead of a server.

// scripted answers scripts and never dials.
type scripted func(ctx context.Context) (any, error)

func (f scripted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f scripted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f scripted) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		for _, cmd := range cmds {
			var answer any
			answer, err = f(ctx)
			cmd.(*redis.Cmd).SetVal(answer)
			cmd.SetErr(err)
		}
		return err
	}
}

func scriptedGuard(t *testing.T, opts consume.Options, f scripted) *consume.Guard {
	t.Helper()
	rdb, err := consume.NewClient("redis://127.0.0.1:1")
	require.NoError(t, err)
	rdb.AddHook(f)
	return guardOn(t, rdb, opts)
}

// Redis gives the lease, or also extends it once, answering late, and then gives
// no answer. The handler has to be told before another delivery may run.
func TestTheHandlerIsToldBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	for name, script := range map[string][]any{"begun": {""}, "begun and extended": {"", int64(1)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var taken time.Time
				answers := script
				guard := scriptedGuard(t, consume.Options{}, func(ctx context.Context) (any, error) {
					if len(answers) == 0 {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					answer := answers[0]
					answers, taken = answers[1:], time.Now()
					time.Sleep(1500 * time.Millisecond) // within the time-out
					return answer, nil
				})
				outcome, err := guard.Process(t.Context(), uuid.NewString(), func(ctx context.Context) error {
					<-ctx.Done()
					require.Empty(t, answers)
					require.Equal(t, guard.Lease()*5/6, time.Since(taken), "a sixth of the lease is left to stop in")
					return context.Cause(ctx)
				})
				require.ErrorIs(t, err, consume.ErrLeaseLost)
				require.Equal(t, consume.Failed, outcome)
			})
		})
	}
}

// Pub/Sub's smallest dead-letter policy takes a message after five deliveries. They
// have to last for an outage of ten minutes.
func TestARedisOutageDoesNotUseUpTheDeliveries(t *testing.T) {
	t.Parallel()
	const deliveries = 5
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		guard := scriptedGuard(t, consume.Options{}, func(context.Context) (any, error) {
			asked++
			return "", errors.New("connection refused")
		})
		began, id, msg := time.Now(), uuid.NewString(), &recorder{}
		for range deliveries {
			outcome, err := guard.Handle(t.Context(), msg, id, func(context.Context) error {
				return errors.New("ran unguarded")
			})
			require.ErrorIs(t, err, consume.ErrUnavailable)
			require.Equal(t, consume.Unavailable, outcome)
		}
		require.Equal(t, &recorder{nacks: deliveries}, msg)
		require.GreaterOrEqual(t, time.Since(began), 10*time.Minute)
		require.Less(t, asked, 400, "while it lasts, Redis is not asked too often")
	})
}

// A held message is handled soon after Redis is back, in the same delivery.
func TestAHeldMessageIsHandledWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		const outage = time.Minute
		guard := scriptedGuard(t, consume.Options{}, func(context.Context) (any, error) {
			if time.Since(began) < outage {
				return "", errors.New("connection refused")
			}
			return "", nil
		})
		msg := &recorder{}
		outcome, err := guard.Handle(t.Context(), msg, uuid.NewString(), func(context.Context) error { return nil })
		require.NoError(t, err)
		require.Equal(t, consume.Processed, outcome)
		require.Equal(t, &recorder{acks: 1}, msg)
		require.Less(t, time.Since(began), outage+10*time.Second)
	})
}

// A worker that is told to stop does not wait for Redis.
func TestStoppingEndsTheHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guard := scriptedGuard(t, consume.Options{}, func(context.Context) (any, error) {
			return "", errors.New("connection refused")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began, msg := time.Now(), &recorder{}
		_, err := guard.Handle(ctx, msg, uuid.NewString(), func(context.Context) error { return nil })
		require.ErrorIs(t, err, consume.ErrUnavailable)
		require.Equal(t, &recorder{nacks: 1}, msg)
		require.Equal(t, time.Second, time.Since(began))
	})
}
