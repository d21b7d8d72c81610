package idem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/idem"
)

func TestCheckAndMarkProcessed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := newKeeper(t, rdb, idem.Config{})
	id := uuid.Must(uuid.NewV7())
	key := "pf:evt:processed:analytics:" + id.String()

	already, err := k.CheckAndMarkProcessed(ctx, "analytics", id, time.Hour)
	require.NoError(t, err)
	require.False(t, already)

	ttl, err := rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.Greater(t, ttl, 59*time.Minute)
	require.LessOrEqual(t, ttl, time.Hour)

	already, err = k.CheckAndMarkProcessed(ctx, "analytics", id, 2*time.Hour)
	require.NoError(t, err)
	require.True(t, already)
	ttl, err = rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, time.Hour, "a duplicate must not prolong the mark")

	already, err = k.CheckAndMarkProcessed(ctx, "billing", id, time.Hour)
	require.NoError(t, err)
	require.False(t, already, "consumers do not share marks")

	require.NoError(t, k.Delete(ctx, "analytics", id))
	already, err = k.CheckAndMarkProcessed(ctx, "analytics", id, time.Hour)
	require.NoError(t, err)
	require.False(t, already)
}

func TestMarksOfOtherProgramsCountAsProcessed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := newKeeper(t, rdb, idem.Config{})
	id := uuid.Must(uuid.NewV7())
	require.NoError(t, rdb.SetNX(ctx, idem.Key("analytics", id), "1", time.Hour).Err())

	already, err := k.CheckAndMarkProcessed(ctx, "analytics", id, time.Hour)
	require.NoError(t, err)
	require.True(t, already)
	_, state, err := k.Begin(ctx, "analytics", id)
	require.NoError(t, err)
	require.Equal(t, idem.StateProcessed, state)
}

func TestTwoPhases(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := newKeeper(t, rdb, idem.Config{TTL: time.Hour, Lease: 10 * time.Second})
	id := uuid.Must(uuid.NewV7())
	key := idem.Key("compliance", id)

	first, state, err := k.Begin(ctx, "compliance", id)
	require.NoError(t, err)
	require.Equal(t, idem.StateUnknown, state)
	ttl, err := rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, 10*time.Second, "before done only the short lease stands")

	second, state, err := k.Begin(ctx, "compliance", id)
	require.NoError(t, err)
	require.Nil(t, second)
	require.Equal(t, idem.StateProcessing, state)
	_, err = k.CheckAndMarkProcessed(ctx, "compliance", id, time.Hour)
	require.ErrorIs(t, err, idem.ErrInProgress)

	released, err := first.Abort(ctx)
	require.NoError(t, err)
	require.True(t, released)
	third, state, err := k.Begin(ctx, "compliance", id)
	require.NoError(t, err)
	require.Equal(t, idem.StateUnknown, state, "an aborted event runs again at once")

	released, err = first.Abort(ctx)
	require.NoError(t, err)
	require.False(t, released, "an old claim must not release a newer one")
	held, err := first.Extend(ctx)
	require.NoError(t, err)
	require.False(t, held)

	mark, err := third.Done(ctx)
	require.NoError(t, err)
	require.Equal(t, idem.Marked, mark)
	ttl, err = rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.Greater(t, ttl, 59*time.Minute)

	mark, err = third.Done(ctx)
	require.NoError(t, err)
	require.Equal(t, idem.Marked, mark, "a repeated done recognises its own mark")
	_, state, err = k.Begin(ctx, "compliance", id)
	require.NoError(t, err)
	require.Equal(t, idem.StateProcessed, state)
}

// A handler that outlived its lease did have its effect: the mark must say so
// and must survive whatever the delivery that took over does next.
func TestDoneOutlivesALostLease(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := newKeeper(t, rdb, idem.Config{})
	id := uuid.Must(uuid.NewV7())

	slow, _, err := k.Begin(ctx, "compliance", id)
	require.NoError(t, err)
	require.NoError(t, rdb.FlushAll(ctx).Err())
	successor, state, err := k.Begin(ctx, "compliance", id)
	require.NoError(t, err)
	require.Equal(t, idem.StateUnknown, state)

	mark, err := slow.Done(ctx)
	require.NoError(t, err)
	require.Equal(t, idem.MarkedLate, mark)
	held, err := successor.Extend(ctx)
	require.NoError(t, err)
	require.False(t, held)
	released, err := successor.Abort(ctx)
	require.NoError(t, err)
	require.False(t, released)
	mark, err = successor.Done(ctx)
	require.NoError(t, err)
	require.Equal(t, idem.AlreadyMarked, mark)

	entry, err := k.Lookup(ctx, "compliance", id)
	require.NoError(t, err)
	require.Equal(t, idem.StateProcessed, entry.State)
}

func TestExtendTakesBackAVanishedKey(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	k := newKeeper(t, rdb, idem.Config{})
	id := uuid.Must(uuid.NewV7())
	claim, _, err := k.Begin(ctx, "compliance", id)
	require.NoError(t, err)
	require.NoError(t, rdb.FlushAll(ctx).Err())

	held, err := claim.Extend(ctx)
	require.NoError(t, err)
	require.True(t, held)
	_, state, err := k.Begin(ctx, "compliance", id)
	require.NoError(t, err)
	require.Equal(t, idem.StateProcessing, state)
}

func TestArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	k := newKeeper(t, startRedis(t).client(t), idem.Config{})
	id := uuid.Must(uuid.NewV7())
	for _, name := range []string{"", "a:b", "a b", "-a", "a\n", "ä", string(make([]byte, 200))} {
		_, err := k.CheckAndMarkProcessed(ctx, name, id, time.Hour)
		require.ErrorIs(t, err, idem.ErrConsumerName, "%q", name)
		_, _, err = k.Begin(ctx, name, id)
		require.ErrorIs(t, err, idem.ErrConsumerName, "%q", name)
	}
	_, err := k.CheckAndMarkProcessed(ctx, "a", uuid.Nil, time.Hour)
	require.ErrorIs(t, err, idem.ErrEventID)
	_, err = k.CheckAndMarkProcessed(ctx, "a", id, 0)
	require.ErrorIs(t, err, idem.ErrTTL)
	outcome, err := k.Process(ctx, "a", uuid.Nil, func(context.Context) error { return errors.New("ran") })
	require.ErrorIs(t, err, idem.ErrEventID)
	require.Equal(t, idem.Invalid, outcome)

	for _, cfg := range []idem.Config{{Lease: time.Millisecond}, {TTL: time.Second}, {Timeout: -1}} {
		_, err := idem.New(startRedis(t).client(t), cfg)
		require.Error(t, err, "%+v", cfg)
	}
}

func TestLookupAndForget(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := startRedis(t).client(t)
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	k := newKeeper(t, rdb, idem.Config{Owner: "host/1", Now: func() time.Time { return now }})
	require.NoError(t, k.Announce(ctx, "search"))
	require.NoError(t, k.Announce(ctx, "compliance"))
	consumers, err := k.Consumers(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"compliance", "search"}, consumers)

	done, running := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	_, err = k.CheckAndMarkProcessed(ctx, "search", done, time.Hour)
	require.NoError(t, err)
	_, _, err = k.Begin(ctx, "compliance", running)
	require.NoError(t, err)

	entries, err := k.LookupMany(ctx, consumers, []uuid.UUID{done, running})
	require.NoError(t, err)
	states := make([]idem.State, 0, len(entries))
	for _, e := range entries {
		states = append(states, e.State)
	}
	require.Equal(t, []idem.State{idem.StateUnknown, idem.StateProcessed, idem.StateProcessing, idem.StateUnknown}, states)
	require.Equal(t, "host/1", entries[1].Owner)
	require.Equal(t, now, entries[1].Since)
	require.Greater(t, entries[1].ExpiresIn, 59*time.Minute)

	forgotten, err := k.Forget(ctx, entries[1])
	require.NoError(t, err)
	require.True(t, forgotten)
	claim, state, err := k.Begin(ctx, "search", done)
	require.NoError(t, err)
	require.Equal(t, idem.StateUnknown, state)
	forgotten, err = k.Forget(ctx, entries[1])
	require.NoError(t, err)
	require.False(t, forgotten, "a key taken since it was shown is left alone")
	held, err := claim.Extend(ctx)
	require.NoError(t, err)
	require.True(t, held)

	many := make([]uuid.UUID, 1201)
	for i := range many {
		many[i] = uuid.Must(uuid.NewV7())
	}
	many[1200] = running
	entries, err = k.LookupMany(ctx, []string{"compliance"}, many)
	require.NoError(t, err)
	require.Len(t, entries, 1201)
	require.Equal(t, idem.StateUnknown, entries[0].State)
	require.Equal(t, idem.StateProcessing, entries[1200].State)
}
