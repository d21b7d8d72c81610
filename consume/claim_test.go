package consume_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

func TestCheckAndMarkProcessed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := guardOn(t, rdb, consume.Options{})
	id := uuid.Must(uuid.NewV7())
	key := "pf:evt:processed:c:" + id.String()

	already, err := k.CheckAndMarkProcessed(ctx, id, time.Hour)
	require.NoError(t, err)
	require.False(t, already)

	ttl, err := rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.Greater(t, ttl, 59*time.Minute)
	require.LessOrEqual(t, ttl, time.Hour)

	already, err = k.CheckAndMarkProcessed(ctx, id, 2*time.Hour)
	require.NoError(t, err)
	require.True(t, already)
	ttl, err = rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, time.Hour, "a duplicate must not prolong the mark")

	billing, err := consume.New(rdb, "billing", consume.Options{})
	require.NoError(t, err)
	already, err = billing.CheckAndMarkProcessed(ctx, id, time.Hour)
	require.NoError(t, err)
	require.False(t, already, "consumers do not share marks")

	require.NoError(t, k.Delete(ctx, id))
	already, err = k.CheckAndMarkProcessed(ctx, id, time.Hour)
	require.NoError(t, err)
	require.False(t, already)
}

func TestMarksOfOtherProgramsCountAsProcessed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := guardOn(t, rdb, consume.Options{})
	id := uuid.Must(uuid.NewV7())
	require.NoError(t, rdb.SetNX(ctx, consume.Key("c", id), "1", time.Hour).Err())

	already, err := k.CheckAndMarkProcessed(ctx, id, time.Hour)
	require.NoError(t, err)
	require.True(t, already)
	_, state, err := k.Begin(ctx, id)
	require.NoError(t, err)
	require.Equal(t, consume.StateProcessed, state)
}

func TestTwoPhases(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := guardOn(t, rdb, consume.Options{TTL: time.Hour, Lease: 10 * time.Second})
	id := uuid.Must(uuid.NewV7())
	key := consume.Key("c", id)

	first, state, err := k.Begin(ctx, id)
	require.NoError(t, err)
	require.Equal(t, consume.StateUnknown, state)
	ttl, err := rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, 10*time.Second, "before done only the short lease stands")

	second, state, err := k.Begin(ctx, id)
	require.NoError(t, err)
	require.Nil(t, second)
	require.Equal(t, consume.StateProcessing, state)
	_, err = k.CheckAndMarkProcessed(ctx, id, time.Hour)
	require.ErrorIs(t, err, consume.ErrInProgress)

	released, err := first.Abort(ctx)
	require.NoError(t, err)
	require.True(t, released)
	third, state, err := k.Begin(ctx, id)
	require.NoError(t, err)
	require.Equal(t, consume.StateUnknown, state, "an aborted event runs again at once")

	released, err = first.Abort(ctx)
	require.NoError(t, err)
	require.False(t, released, "an old claim must not release a newer one")
	held, err := first.Extend(ctx)
	require.NoError(t, err)
	require.False(t, held)

	mark, err := third.Done(ctx)
	require.NoError(t, err)
	require.Equal(t, consume.Marked, mark)
	ttl, err = rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.Greater(t, ttl, 59*time.Minute)

	mark, err = third.Done(ctx)
	require.NoError(t, err)
	require.Equal(t, consume.Marked, mark, "a repeated done recognises its own mark")
	_, state, err = k.Begin(ctx, id)
	require.NoError(t, err)
	require.Equal(t, consume.StateProcessed, state)
}

// A handler that outlived its lease did have its effect: the mark must say so
// and must survive whatever the delivery that took over does next.
func TestDoneOutlivesALostLease(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := guardOn(t, rdb, consume.Options{})
	id := uuid.Must(uuid.NewV7())

	slow, _, err := k.Begin(ctx, id)
	require.NoError(t, err)
	require.NoError(t, rdb.FlushAll(ctx).Err())
	successor, state, err := k.Begin(ctx, id)
	require.NoError(t, err)
	require.Equal(t, consume.StateUnknown, state)

	mark, err := slow.Done(ctx)
	require.NoError(t, err)
	require.Equal(t, consume.MarkedLate, mark)
	held, err := successor.Extend(ctx)
	require.NoError(t, err)
	require.False(t, held)
	released, err := successor.Abort(ctx)
	require.NoError(t, err)
	require.False(t, released)
	mark, err = successor.Done(ctx)
	require.NoError(t, err)
	require.Equal(t, consume.AlreadyMarked, mark)

	require.Equal(t, consume.StateProcessed, stateOf(t, rdb, id))
}

func TestExtendTakesBackAVanishedKey(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := guardOn(t, rdb, consume.Options{})
	id := uuid.Must(uuid.NewV7())
	claim, _, err := k.Begin(ctx, id)
	require.NoError(t, err)
	require.NoError(t, rdb.FlushAll(ctx).Err())

	held, err := claim.Extend(ctx)
	require.NoError(t, err)
	require.True(t, held)
	_, state, err := k.Begin(ctx, id)
	require.NoError(t, err)
	require.Equal(t, consume.StateProcessing, state)
}

func TestArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t).client(t)
	g := guardOn(t, rdb, consume.Options{})
	for _, name := range []string{"", "a:b", "a b", "-a", "a\n", "ä", string(make([]byte, 200))} {
		_, err := consume.New(rdb, name, consume.Options{})
		require.ErrorIs(t, err, consume.ErrConsumerName, "%q", name)
	}
	_, err := consume.New(nil, "a", consume.Options{})
	require.Error(t, err)
	for _, opts := range []consume.Options{{Lease: time.Millisecond}, {TTL: time.Second}, {Timeout: -1}, {Hold: -1}} {
		_, err := consume.New(rdb, "a", opts)
		require.Error(t, err, "%+v", opts)
	}

	_, err = g.CheckAndMarkProcessed(t.Context(), uuid.Nil, time.Hour)
	require.ErrorIs(t, err, consume.ErrEventID)
	_, err = g.CheckAndMarkProcessed(t.Context(), uuid.Must(uuid.NewV7()), 0)
	require.ErrorIs(t, err, consume.ErrTTL)
	for _, id := range []string{"", "42", uuid.Nil.String()} {
		outcome, err := g.Process(t.Context(), id, func(context.Context) error { return errors.New("ran") })
		require.ErrorIs(t, err, consume.ErrEventID)
		require.Equal(t, consume.Invalid, outcome)
	}
}
