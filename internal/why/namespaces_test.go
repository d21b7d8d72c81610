package why_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/why"
)

// speak makes the outbox one in which the namespace shop has order_created on a topic of its own, and in which all other
// namespaces call order_canceled by the name order_expired.
func (b *bundle) speak() {
	b.t.Helper()
	orders := func(namespace, topic string, types ...catalogue.Type) catalogue.Document {
		for i := range types {
			types[i].Topic, types[i].Aggregate, types[i].Schema = topic, "vendor_order", catalogue.Any
		}
		return catalogue.Document{Name: topic, Namespace: namespace, Topics: map[string]string{topic: topic}, Types: types}
	}
	types, err := catalogue.Build(
		orders("*", "orders", catalogue.Type{Name: "order_created"}, catalogue.Type{Name: "order_expired", Was: []string{"order_canceled"}}),
		orders("shop", "shop-orders", catalogue.Type{Name: "order_created"}, catalogue.Type{Name: "order_canceled"}))
	require.NoError(b.t, err)
	b.outbox.Registry = &registry.Registry{Catalogue: types, Source: "program"}
}

func (b *bundle) stored(namespace, eventType string) (id string) {
	b.t.Helper()
	id = uuid.NewString()
	b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, namespace) VALUES ($1, $2, 'vendor_order', gen_random_uuid(), '{}', $3)`,
		id, eventType, namespace)
	return id
}

// What operators see of a topic or a type is what goes there: one type can go to another topic in a namespace, and is one
// type under all of its names.
func TestOperatorsSeeNamespacesAndFormerNames(t *testing.T) {
	b := setup(t)
	b.speak()
	var elsewhere, shop []string
	for _, name := range []string{"order_created", "order_canceled"} {
		elsewhere, shop = append(elsewhere, b.stored("default", name)), append(shop, b.stored("shop", name))
	}
	elsewhere = append(elsewhere, b.stored("default", "order_expired"))

	got, err := stats.Collect(b.ctx, b.outbox.DB, b.outbox.Registry, stats.Params{MaxAttempts: 10, By: "topic"})
	require.NoError(t, err)
	figures := map[string]int64{}
	for _, g := range got.Groups {
		figures[g.Key] = g.Backlog
	}
	require.Equal(t, map[string]int64{"orders": 3, "shop-orders": 2}, figures)

	for _, tc := range []struct {
		kind, value string
		holds, not  []string
	}{
		{outbox.PauseTopic, "orders", elsewhere, shop},
		{outbox.PauseTopic, "shop-orders", shop, elsewhere},
		{outbox.PauseType, "order_expired", elsewhere[1:], append(elsewhere[:1:1], shop...)},
		{outbox.PauseType, "order_created", []string{elsewhere[0], shop[0]}, []string{elsewhere[1], shop[1]}},
	} {
		p := outbox.PauseParams{Kind: tc.kind, Value: tc.value, Actor: "ann"}
		made, err := b.outbox.Pause(b.ctx, p)
		require.NoError(t, err)
		require.EqualValues(t, len(tc.holds), made.Events, tc.value)
		held, err := b.outbox.Pauses(b.ctx)
		require.NoError(t, err)
		require.EqualValues(t, len(tc.holds), held[0].Events, tc.value)
		require.NotNil(t, held[0].OldestAt)
		for _, id := range tc.holds {
			require.Equal(t, why.Held, b.why(id).State, tc.value)
		}
		for _, id := range tc.not {
			require.NotEqual(t, why.Held, b.why(id).State, tc.value)
		}
		_, err = b.outbox.Resume(b.ctx, p)
		require.NoError(t, err)
	}
	b.exec(`INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state)
		VALUES (gen_random_uuid(), 'here', 1, 'v', now(), now() + interval '1 hour', '{"topics":[{"topic":"shop-orders","state":"misconfigured"}]}')`)
	require.Equal(t, why.Paused, b.why(shop[0]).State)
	require.NotEqual(t, why.Paused, b.why(elsewhere[0]).State)
}
