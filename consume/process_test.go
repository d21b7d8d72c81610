package consume_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

func TestProcessOutcomes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	k := guardOn(t, startRedis(t).client(t), consume.Options{})
	id := uuid.Must(uuid.NewV7())
	boom := errors.New("boom")

	outcome, err := k.Process(ctx, id.String(), func(context.Context) error { return boom })
	require.ErrorIs(t, err, boom)
	require.Equal(t, consume.Failed, outcome)
	require.False(t, outcome.Ack())

	outcome, err = k.Process(ctx, id.String(), func(context.Context) error { panic("poison") })
	var panicked *consume.PanicError
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, "poison", panicked.Value)
	require.Contains(t, string(panicked.Stack), "process_test.go")
	require.Equal(t, consume.Failed, outcome)

	outcome, err = k.Process(ctx, id.String(), func(context.Context) error {
		inner, err := k.Process(ctx, id.String(), func(context.Context) error { return nil })
		require.ErrorIs(t, err, consume.ErrInProgress)
		require.Equal(t, consume.InProgress, inner)
		require.False(t, inner.Ack())
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, consume.Processed, outcome)
	require.True(t, outcome.Ack())

	outcome, err = k.Process(ctx, id.String(), func(context.Context) error { return boom })
	require.NoError(t, err)
	require.Equal(t, consume.Duplicate, outcome)
	require.True(t, outcome.Ack())
}

func TestFiftyDeliveriesAtOnceRunOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := startRedis(t)
	id := uuid.Must(uuid.NewV7())
	var runs atomic.Int32
	var acked, nacked atomic.Int32
	start := make(chan struct{})
	var deliveries sync.WaitGroup
	for range 50 {
		k := guardOn(t, srv.client(t), consume.Options{}) // fifty processes would have fifty clients
		deliveries.Go(func() {
			<-start
			for {
				outcome, err := k.Process(ctx, id.String(), func(context.Context) error {
					runs.Add(1)
					return nil
				})
				if outcome.Ack() {
					acked.Add(1)
					return
				}
				if !errors.Is(err, consume.ErrInProgress) {
					t.Errorf("unexpected outcome %s: %v", outcome, err)
					return
				}
				nacked.Add(1)
			}
		})
	}
	close(start)
	deliveries.Wait()
	require.EqualValues(t, 1, runs.Load())
	require.EqualValues(t, 50, acked.Load())
}

// A handler longer than its lease keeps it by extensions: no other gets in.
func TestLeaseIsExtendedWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := startRedis(t)
	rdb := srv.client(t)
	var trips roundTrips
	rdb.AddHook(&trips)
	k := guardOn(t, rdb, consume.Options{Lease: 1500 * time.Millisecond})
	rival := guardOn(t, srv.client(t), consume.Options{})
	id := uuid.Must(uuid.NewV7())
	outcome, err := k.Process(ctx, id.String(), func(ctx context.Context) error {
		begun := trips.n.Load()
		for trips.n.Load() < begun+5 { // five extensions are longer than one lease
			_, state, err := rival.Begin(ctx, id)
			if err != nil {
				return err
			}
			if state != consume.StateProcessing {
				return errors.New("lease ran out under a living handler")
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, consume.Processed, outcome)
}

func TestHandlerIsToldThatItsLeaseIsLost(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := guardOn(t, rdb, consume.Options{Lease: 200 * time.Millisecond})
	id := uuid.Must(uuid.NewV7())
	outcome, err := k.Process(ctx, id.String(), func(ctx context.Context) error {
		if err := rdb.Set(ctx, consume.Key("c", id), "processing:other:1:elsewhere", time.Hour).Err(); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, consume.ErrLeaseLost)
	require.Equal(t, consume.Failed, outcome)
	value, err := rdb.Get(ctx, consume.Key("c", id)).Result()
	require.NoError(t, err)
	require.Equal(t, "processing:other:1:elsewhere", value, "the new holder keeps its lease")
}

// A caller that gives up (a worker told to stop) must still settle what its
// handler did.
func TestCancelledCallerStillMarks(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t).client(t)
	k := guardOn(t, rdb, consume.Options{})
	id := uuid.Must(uuid.NewV7())
	ctx, cancel := context.WithCancel(t.Context())
	outcome, err := k.Process(ctx, id.String(), func(context.Context) error {
		cancel()
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, consume.Processed, outcome)
	require.Equal(t, consume.StateProcessed, stateOf(t, rdb, id))
}

// roundTrips counts what goes over the wire, one per command or pipeline.
type roundTrips struct{ n atomic.Int64 }

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmds)
	}
}

func TestTwoRoundTripsPerEvent(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := guardOn(t, rdb, consume.Options{})
	handler := func(context.Context) error { return nil }
	// The first event teaches the server the scripts.
	_, err := k.Process(ctx, uuid.NewString(), handler)
	require.NoError(t, err)

	var trips roundTrips
	rdb.AddHook(&trips)
	const events = 100
	for range events {
		id := uuid.Must(uuid.NewV7())
		outcome, err := k.Process(ctx, id.String(), handler)
		require.NoError(t, err)
		require.Equal(t, consume.Processed, outcome)
	}
	require.EqualValues(t, 2*events, trips.n.Load())
}
