package dispatch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A publisher of some types takes what is stored under their former names, and knows the topics of its scope alone.
func TestAPublisherOfATypeTakesItsFormerNames(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	document := func(namespace, topic string, types ...catalogue.Type) catalogue.Document {
		for i := range types {
			types[i].Topic, types[i].Aggregate, types[i].Schema, types[i].Envelope = topic, "vendor_order", catalogue.Any, catalogue.None
		}
		return catalogue.Document{Name: topic, Namespace: namespace, Topics: map[string]string{topic: topic}, Types: types}
	}
	types, err := catalogue.Build(
		document("*", "orders", catalogue.Type{Name: "order_expired", Was: []string{"order_canceled"}}, catalogue.Type{Name: "order_created"}),
		document("shop", "shop-orders", catalogue.Type{Name: "order_canceled"}))
	require.NoError(t, err)
	require.NoError(t, types.Apply(t.Context(), db.Pool))
	for _, row := range [][2]string{{"default", "order_canceled"}, {"default", "order_expired"}, {"default", "order_created"}, {"shop", "order_canceled"}} {
		_, err := db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, namespace)
			VALUES (gen_random_uuid(), $2, 'vendor_order', gen_random_uuid(), '{}', $1)`, row[0], row[1])
		require.NoError(t, err)
	}
	d, err := dispatch.New(t.Context(), dispatch.Config{
		URL: db.URL, Catalogue: types, EventTypes: []string{"order_expired"},
		Publisher: dispatch.Each(func(context.Context, string, dispatch.Message) error { return nil }, 1),
	})
	require.NoError(t, err)
	defer d.Close()
	require.Len(t, d.State().Topics, 1)
	require.Equal(t, "orders", d.State().Topics[0].Topic)
	done, err := d.Once(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(2), done.Published)
}
