// Package sourcetest checks what every broker.Source promises.
package sourcetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// ordered is how many of the messages have an ordering key.
const ordered = 12

// Run publishes to topic "orders" by p and receives from the client's subscription, whose topic is
// empty.
func Run(t *testing.T, p dispatch.Publisher, client broker.Broker, subscription string) {
	t.Helper()
	var msgs []dispatch.Message
	for i := range 20 {
		id := fmt.Sprintf("e-%02d", i)
		m := dispatch.Message{
			EventID: id, EventType: "order.created", Data: []byte(`{"n": 1}`), AggregateID: "7",
			Attributes: map[string]string{"event_id": id, "tenant_id": "t"},
		}
		if i < ordered {
			m.OrderingKey, m.Attributes["event_seq"] = "default/a", fmt.Sprint(i)
		}
		msgs = append(msgs, m)
	}
	for _, some := range [][]dispatch.Message{msgs[:ordered], msgs[ordered:]} {
		for _, r := range p.Publish(t.Context(), "orders", some) {
			require.NoError(t, r.Err)
		}
	}
	open := func() broker.Source {
		s, err := client.Source(t.Context(), broker.SourceParams{Subscription: subscription, Concurrency: 4})
		require.NoError(t, err)
		require.Empty(t, s.About().Warning)
		return s
	}
	m, measures := client.(broker.Measurer)
	waits := func(least, most int64) {
		if !measures {
			return
		}
		require.EventuallyWithT(t, func(t *assert.CollectT) { // a broker may count later than it takes
			n, err := m.Backlog(context.Background(), subscription)
			require.NoError(t, err)
			require.True(t, n >= least && n <= most, "%d wait, not %d to %d", n, least, most)
		}, time.Minute, 20*time.Millisecond)
	}
	waits(20, 20)
	// Half of them are acknowledged; one is given back first, and comes again, perhaps to the other.
	got := receive(t, open(), 10, "e-03")
	// Another consumer gets the rest, and nothing that was acknowledged.
	rest := receive(t, open(), 10, "")
	waits(0, 4) // what was in flight at the end may be on its way back
	seen := map[string]bool{}
	for _, id := range append(got, rest...) {
		require.False(t, seen[id], "%s came twice", id)
		seen[id] = true
	}
	for _, m := range msgs {
		require.True(t, seen[m.EventID] || seen[m.EventID+" again"], m.EventID)
	}
	_, err := client.Source(t.Context(), broker.SourceParams{Subscription: "missing-sub@missing", Concurrency: 1})
	require.ErrorIs(t, err, broker.ErrNoSubscription)
}

// receive acknowledges n messages, after it gave one back once, and returns what it was given, in
// that order.
func receive(t *testing.T, s broker.Source, n int, fail string) (got []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	failed := false
	require.NoError(t, s.Receive(ctx, func(d broker.Delivery) {
		mu.Lock()
		id := d.Attributes["event_id"]
		if ctx.Err() != nil || n == 0 {
			mu.Unlock()
			d.Nack()
			return
		}
		if id == fail && !failed {
			failed = true
			mu.Unlock()
			d.Nack()
			return
		}
		if id == fail {
			id += " again"
			assert.Greater(t, d.Attempt, 1)
		}
		assert.Equal(t, "t", d.Attributes["tenant_id"])
		assert.Equal(t, `{"n": 1}`, string(d.Body))
		if d.Attributes["event_seq"] != "" {
			assert.Equal(t, "default/a", d.OrderingKey)
		} else {
			assert.Empty(t, d.OrderingKey, "%s has none, whatever the broker was given", id)
		}
		got = append(got, id)
		n--
		last := n == 0
		mu.Unlock()
		d.Ack()
		if last {
			cancel()
		}
	}))
	return got
}
