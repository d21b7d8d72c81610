package dispatch_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// outbox_claimable counts what publishers could do something for, and stops at its limit.
func TestClaimableCountsWhatCanBeClaimed(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	claimable := func() (n int) {
		t.Helper()
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT outbox_claimable(100)").Scan(&n))
		return n
	}
	require.Zero(t, claimable())
	tenant := uuid.New()
	ids := emitOrders(t, pool, 8, func(i int, p *emit.Event) {
		switch i {
		case 5:
			p.TenantID = tenant
		case 6:
			p.Namespace = "other"
		}
	})
	require.Equal(t, 8, claimable())
	var few int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT outbox_claimable(3)").Scan(&few))
	require.Equal(t, 3, few)

	exec("UPDATE outbox_events SET next_attempt_at = now() + interval '1 hour' WHERE id = $1", ids[0])
	require.Equal(t, 7, claimable(), "one backs off")
	exec("UPDATE outbox_events SET dead_at = now() WHERE id = $1", ids[1])
	require.Equal(t, 6, claimable(), "one is dead")
	exec("UPDATE outbox_events SET published_at = now() WHERE id = $1", ids[2])
	require.Equal(t, 5, claimable(), "one is published")
	for _, pause := range []struct{ kind, value string }{{"tenant", tenant.String()}, {"namespace", "other"}} {
		exec("SELECT outbox_pause($1, $2, 3600, 'me')", pause.kind, pause.value)
		require.Equal(t, 4, claimable(), pause.kind)
		exec("SELECT outbox_resume($1, $2, 'me')", pause.kind, pause.value)
	}
	require.Len(t, mustClaim(t, newStore(pool, dispatch.Scope{}), claimAll(2)), 2)
	require.Equal(t, 3, claimable(), "two are leased")

	run := keyed(t, pool, "a", "a", "b")
	require.Equal(t, 6, claimable())
	exec("UPDATE outbox_events SET dead_at = now() WHERE id = $1", run[0])
	require.Equal(t, 4, claimable(), "its follower is parked")
	exec("SELECT outbox_pause('type', 'order_state_changed', 3600, 'me')")
	require.Equal(t, 3, claimable(), "the head of b is paused")
	exec("SELECT outbox_resume('type', 'order_state_changed', 'me')")

	// What waits behind a paused head waits, too.
	emitOrders(t, pool, 3, func(i int, p *emit.Event) {
		if p.OrderingKey = "c"; i == 0 {
			p.TenantID = tenant
		}
	})
	require.Equal(t, 7, claimable())
	exec("SELECT outbox_pause('tenant', $1, 3600, 'me')", tenant.String())
	require.Equal(t, 3, claimable(), "not the tenant's two, and not the followers of one")
	exec("SELECT outbox_resume('tenant', $1, 'me')", tenant.String())

	// Pauses hold a type under all its names, and a topic where the catalogue says so.
	exec(`INSERT INTO outbox_event_types (namespace, event_type, aggregate_type, topic, options, digest)
		VALUES ('*', 'order_moved', 'vendor_order', 'orders', '{"was": ["order_state_changed"]}', 'x'),
		       ('other', 'order_state_changed', 'vendor_order', 'elsewhere', '{}', 'x')`)
	for _, pause := range []struct{ kind, value string }{{"type", "order_moved"}, {"topic", "orders"}} {
		exec("SELECT outbox_pause($1, $2, 3600, 'me')", pause.kind, pause.value)
		require.Equal(t, 6, claimable(), pause.kind)
		exec("SELECT outbox_resume($1, $2, 'me')", pause.kind, pause.value)
	}
	exec("SELECT outbox_pause('type', 'order_state_changed', 3600, 'me')")
	exec("SELECT outbox_resume('type', 'order_moved', 'me')")
	require.Equal(t, 6, claimable(), "paused under its former name")
	exec("SELECT outbox_resume('type', 'order_state_changed', 'me')")
	exec("SELECT outbox_pause('topic', 'order_moved', 3600, 'me')")
	require.Equal(t, 7, claimable(), "a topic with the name of a type")
	exec("SELECT outbox_resume('topic', 'order_moved', 'me')")
}
