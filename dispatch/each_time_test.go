package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func numbered(n int) []Message {
	msgs := make([]Message, n)
	for i := range msgs {
		msgs[i].EventID = string(rune('a' + i%26))
	}
	return msgs
}

// A slow function gets as many messages as it has time for. The others are unsent, and so cost no attempt.
func TestEachHandsOverOnlyWhatThereIsTimeFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		slow := Each(func(context.Context, string, Message) error {
			calls.Add(1)
			time.Sleep(4 * time.Second)
			return nil
		}, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		results := slow.Publish(ctx, "t", numbered(50))
		require.Len(t, results, 50)
		for i, r := range results {
			if i < 4 { // at 0s and at 4s; the third pair would begin at 8s, in the last quarter
				require.NoError(t, r.Err, "message %d", i)
				continue
			}
			require.ErrorIs(t, r.Err, ErrUnsent, "message %d", i)
		}
		require.Equal(t, int64(4), calls.Load())
	})
}

func TestEachTurnsAPanicIntoAFailure(t *testing.T) {
	t.Parallel()
	p := Each(func(_ context.Context, _ string, m Message) error {
		if m.EventID == "b" {
			panic("broken")
		}
		return nil
	}, 4)
	results := p.Publish(t.Context(), "t", numbered(3))
	require.NoError(t, results[0].Err)
	require.NoError(t, results[2].Err)
	var panicked *PanicError
	require.ErrorAs(t, results[1].Err, &panicked)
	require.Equal(t, "broken", panicked.Value)
	require.Contains(t, string(panicked.Stack()), "each_time_test.go")
	require.Equal(t, Retryable, ClassOf(results[1].Err))
	require.Equal(t, codePanic, CodeOf(results[1].Err))
}

// A function that ignores its context does not hold up the dispatcher, and keeps its place: it is never called more often
// at once than it was said.
func TestEachLeavesAStuckFunctionBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := Each(func(_ context.Context, _ string, m Message) error {
			if m.EventID == "a" {
				<-release
			}
			return nil
		}, 1)
		publish := func() []Result {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return stuck.Publish(ctx, "t", numbered(2))
		}
		results := publish()
		require.NotErrorIs(t, results[0].Err, ErrUnsent, "it was handed over, and may yet be stored")
		require.ErrorIs(t, results[0].Err, context.DeadlineExceeded)
		require.ErrorIs(t, results[1].Err, ErrUnsent)
		for _, r := range publish() {
			require.ErrorIs(t, r.Err, ErrUnsent)
		}
		close(release)
		synctest.Wait()
		for _, r := range publish() {
			require.NoError(t, r.Err)
		}
	})
}

func TestEachKeepsTheClassOfAnError(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for _, tc := range []struct {
		err   error
		class Class
		code  string
	}{
		{cause, Retryable, codeFailed},
		{Reject(cause), Refused, "rejected"},
		{Pause(cause), Misconfigured, "paused"},
		{NewFailure(Retryable, "busy", cause), Retryable, "busy"},
	} {
		r := Each(func(context.Context, string, Message) error { return tc.err }, 1).Publish(t.Context(), "t", numbered(1))
		require.ErrorIs(t, r[0].Err, cause)
		require.Equal(t, tc.class, ClassOf(r[0].Err))
		require.Equal(t, tc.code, CodeOf(r[0].Err))
	}
}
