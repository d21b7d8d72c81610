package dispatch_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// What is paused is left out of every claim; in an ordering key a paused head holds back what follows it.
func TestAClaimLeavesOutWhatIsPaused(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	tenant := uuid.New()
	ids := emitOrders(t, pool, 3, func(i int, p *emit.Event) {
		switch i {
		case 1:
			p.TenantID = tenant
		case 2:
			p.Namespace = "other"
		}
	})
	for _, tc := range []struct {
		paused []string
		want   []string
	}{
		{nil, ids},
		{[]string{" " + tenant.String()}, []string{ids[0], ids[2]}},
		{[]string{"other "}, []string{ids[0], ids[1]}},
		{[]string{"default "}, []string{ids[2]}},
		{[]string{"order_created", "order_canceled", "order_state_changed", "order_expired"}, nil},
	} {
		s := newStore(pool, dispatch.Scope{})
		p := claimAll(10)
		p.Paused = tc.paused
		due, _, err := s.Due(t.Context(), dispatch.ClaimParams{Paused: tc.paused})
		require.NoError(t, err)
		require.Equal(t, len(tc.want) > 0, due, tc.paused)
		require.ElementsMatch(t, tc.want, idsOf(mustClaim(t, s, p)), tc.paused)
		expire(t, pool)
	}

	_, err := pool.Exec(t.Context(), "UPDATE outbox_events SET published_at = now()")
	require.NoError(t, err)
	run := keyed(t, pool, "a", "a", "b")
	s := newStore(pool, dispatch.Scope{})
	p := orderedAll(10)
	p.Paused = []string{"order_state_changed"}
	require.Empty(t, claimOrdered(t, s, p))
	_, err = pool.Exec(t.Context(), insertOrdered, uuid.NewString(), "order_canceled", "a")
	require.NoError(t, err)
	require.Empty(t, claimOrdered(t, s, p), "the follower is not paused, and waits for its head")
	p.Paused = nil
	require.Subset(t, idsOf(claimOrdered(t, s, p)), run)
}
