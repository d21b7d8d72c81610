package dispatch_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestDeadLetterIsACopyOfItsRow(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	id := emitOrders(t, db.Pool, 1, func(_ int, p *emit.Event) { p.Namespace = "shop"; p.Headers = map[string]string{"h": "v"} })[0]
	store := newStore(db.Pool, dispatch.Scope{})
	for range 2 { // a replayed event can die again
		row := mustClaim(t, store, claimAll(1))[0]
		_, err := store.Settle(t.Context(), dispatch.Verdicts{Dead: []dispatch.Dead{{
			Key: row.Key, Reason: outbox.ReasonMaxAttempts, Error: "gone", Topic: "domain", Fingerprint: "abc", Attempted: true}}})
		require.NoError(t, err)
		_, err = db.Pool.Exec(t.Context(), `UPDATE outbox_events SET dead_at = NULL`)
		require.NoError(t, err)
	}
	var same, total int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
SELECT count(*) FILTER (WHERE d.event_type = e.event_type AND d.aggregate_type = e.aggregate_type AND d.aggregate_id = e.aggregate_id
           AND d.payload_json = e.payload_json AND d.headers = e.headers AND d.namespace = e.namespace AND d.event_created_at = e.created_at
           AND d.error_reason = 'max_attempts' AND d.error_message = 'gone' AND d.topic = 'domain' AND d.fingerprint = 'abc' AND d.state = 'open'),
       count(*)
  FROM outbox_dlq d JOIN outbox_events e ON e.id = d.event_id WHERE e.id = $1::text::uuid`, id).Scan(&same, &total))
	require.Equal(t, 2, total)
	require.Equal(t, 2, same)
	var attempts []int32
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT array_agg(attempt_count ORDER BY failed_at) FROM outbox_dlq`).Scan(&attempts))
	require.Equal(t, []int32{1, 2}, attempts)
}

func TestSettleIsFencedByTheLease(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	id := emitOrders(t, db.Pool, 1, nil)[0]
	zombie, heir := newStore(db.Pool, dispatch.Scope{}), newStore(db.Pool, dispatch.Scope{})
	old := mustClaim(t, zombie, claimAll(1))[0]
	expire(t, db.Pool)
	// The same publisher takes it again: its former self must not settle either.
	again := mustClaim(t, zombie, claimAll(1))[0]
	require.Equal(t, 1, again.AttemptCount, "an expired lease is a failed attempt")
	require.False(t, old.Expired)
	require.True(t, again.Expired)
	for _, v := range everyVerdict(old) {
		got, err := zombie.Settle(t.Context(), v)
		require.NoError(t, err)
		require.Zero(t, got.Len())
	}
	expire(t, db.Pool)
	taken := mustClaim(t, heir, claimAll(1))[0]
	require.Equal(t, 2, taken.AttemptCount)
	require.Empty(t, old.LastError)
	require.Contains(t, taken.LastError, "expired without a verdict")
	for _, v := range everyVerdict(again) {
		got, err := zombie.Settle(t.Context(), v)
		require.NoError(t, err)
		require.Zero(t, got.Len())
	}
	require.Equal(t, 1, strings.Count(stateOf(t, db.Pool, id).LastError, "expired without a verdict"), "it is not said twice")
	got, err := heir.Settle(t.Context(), dispatch.Verdicts{Published: []dispatch.Published{{Key: taken.Key, MessageID: "m"}}})
	require.NoError(t, err)
	require.Equal(t, 1, got.Published)
	got, err = heir.Settle(t.Context(), dispatch.Verdicts{Failed: []dispatch.Failed{{Key: taken.Key, Error: "late"}}})
	require.NoError(t, err)
	require.Zero(t, got.Len(), "what is published stays published")
	var letters int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_dlq`).Scan(&letters))
	require.Zero(t, letters)
}

// A lease that expires is an attempt of its own and hides nothing: what the broker said stays.
func TestAnExpiredLeaseKeepsTheLastError(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	id := emitOrders(t, db.Pool, 1, nil)[0]
	store := newStore(db.Pool, dispatch.Scope{})
	row := mustClaim(t, store, claimAll(1))[0]
	_, err := store.Settle(t.Context(), dispatch.Verdicts{Failed: []dispatch.Failed{{Key: row.Key, Error: "refused: lease of publisher 1"}}})
	require.NoError(t, err)
	for range 2 {
		_, err = db.Pool.Exec(t.Context(), `UPDATE outbox_events SET next_attempt_at = now()`)
		require.NoError(t, err)
		mustClaim(t, store, claimAll(1))
		expire(t, db.Pool)
	}
	require.True(t, mustClaim(t, store, claimAll(1))[0].Expired)
	require.Regexp(t, `^refused: lease of publisher 1; then the lease of publisher \S+ expired without a verdict$`, stateOf(t, db.Pool, id).LastError)
}

func everyVerdict(row dispatch.Claimed) []dispatch.Verdicts {
	return []dispatch.Verdicts{
		{Published: []dispatch.Published{{Key: row.Key, MessageID: "m"}}},
		{Failed: []dispatch.Failed{{Key: row.Key, Error: "late"}}},
		{Dead: []dispatch.Dead{{Key: row.Key, Reason: outbox.ReasonMaxAttempts, Error: "late"}}},
		{Released: []dispatch.Key{row.Key}},
	}
}

func TestSettleTellsARefusalFromAnAbsence(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 1, nil)
	store := newStore(db.Pool, dispatch.Scope{})
	row := mustClaim(t, store, claimAll(1))[0]
	_, err := store.Settle(t.Context(), dispatch.Verdicts{Dead: []dispatch.Dead{{Key: row.Key, Reason: "no such reason"}}})
	require.ErrorIs(t, err, dispatch.ErrRefused)
	_, err = store.Settle(t.Context(), dispatch.Verdicts{Failed: []dispatch.Failed{{Key: row.Key, Error: "half a rune \xe2\x82"}}})
	require.ErrorIs(t, err, dispatch.ErrRefused)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = store.Settle(gone, dispatch.Verdicts{Released: []dispatch.Key{row.Key}})
	require.Error(t, err)
	require.NotErrorIs(t, err, dispatch.ErrRefused)
	got, err := store.Settle(t.Context(), dispatch.Verdicts{Released: []dispatch.Key{row.Key}})
	require.NoError(t, err)
	require.Equal(t, 1, got.Released, "none of the failed settles changed anything")
}
