package consume_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

type recorder struct {
	mu          sync.Mutex
	acks, nacks int
}

func (r *recorder) Ack()  { r.mu.Lock(); r.acks++; r.mu.Unlock() }
func (r *recorder) Nack() { r.mu.Lock(); r.nacks++; r.mu.Unlock() }

func TestHandleSettles(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		eventID   string
		prepare   func(ctx context.Context, s *redisServer, rdb *redis.Client, key string) error
		handler   error
		outcome   consume.Outcome
		ack, runs bool
		err       error
	}{
		"success": {outcome: consume.Processed, ack: true, runs: true},
		"duplicate": {
			prepare: func(ctx context.Context, _ *redisServer, rdb *redis.Client, key string) error {
				return rdb.Set(ctx, key, "done:x:1:elsewhere", time.Hour).Err()
			},
			outcome: consume.Duplicate, ack: true,
		},
		"failure": {handler: boom, outcome: consume.Failed, runs: true, err: boom},
		"at work elsewhere": {
			prepare: func(ctx context.Context, _ *redisServer, rdb *redis.Client, key string) error {
				return rdb.Set(ctx, key, "processing:x:1:elsewhere", time.Hour).Err()
			},
			outcome: consume.InProgress, err: consume.ErrInProgress,
		},
		"redis away": {
			prepare: func(_ context.Context, s *redisServer, _ *redis.Client, _ string) error { s.stop(); return nil },
			outcome: consume.Unavailable, err: consume.ErrUnavailable,
		},
		"no event id":     {eventID: "none", outcome: consume.Invalid, err: consume.ErrEventID},
		"not an event id": {eventID: "42", outcome: consume.Invalid, err: consume.ErrEventID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startRedis(t)
			rdb := server.client(t)
			guard := guardOn(t, rdb, consume.Options{Lease: 300 * time.Millisecond, Hold: 300 * time.Millisecond})
			id := uuid.Must(uuid.NewV7())
			if tc.prepare != nil {
				require.NoError(t, tc.prepare(t.Context(), server, rdb, consume.Key("c", id)))
			}
			eventID := cmp.Or(tc.eventID, id.String())
			msg, ran := &recorder{}, false
			outcome, err := guard.Handle(t.Context(), msg, eventID, func(context.Context) error {
				ran = true
				return tc.handler
			})
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.outcome, outcome)
			require.Equal(t, tc.runs, ran)
			if tc.ack {
				require.Equal(t, &recorder{acks: 1}, msg)
			} else {
				require.Equal(t, &recorder{nacks: 1}, msg)
			}
		})
	}
}

// The first delivery of the event was killed. The second waits for its lease to
// end and handles the event: given back instead, it would use up its deliveries.
func TestHandleOutlastsAKilledWorker(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t).client(t)
	guard := guardOn(t, rdb, consume.Options{})
	id := uuid.Must(uuid.NewV7())
	key := consume.Key("c", id)
	require.NoError(t, rdb.Set(t.Context(), key, "processing:x:1:killed", time.Hour).Err())
	rdb.AddHook(onScript(func(ctx context.Context) error {
		return rdb.Del(ctx, key).Err() // the lease ends after it has been seen
	}))
	msg := &recorder{}
	outcome, err := guard.Handle(t.Context(), msg, id.String(), func(context.Context) error { return nil })
	require.NoError(t, err)
	require.Equal(t, consume.Processed, outcome)
	require.Equal(t, &recorder{acks: 1}, msg)
}

// onScript calls itself after each round trip whose scripts were run.
type onScript func(context.Context) error

func (f onScript) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f onScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f onScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := next(ctx, cmds); err != nil {
			return err
		}
		return f(ctx)
	}
}
