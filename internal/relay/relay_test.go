package relay_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/relay"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

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
	r, err := relay.New(t.Context(), relay.Params{
		Claims: db.Pool, Settles: outboxtest.Pool(t, db.URL), Types: &registry.Registry{Catalogue: types, Source: "program"},
		Publisher: func(context.Context, *registry.Registry) (dispatch.Publisher, error) {
			return dispatch.Each(func(context.Context, string, dispatch.Message) error { return nil }, 1), nil
		},
		EventTypes: []string{"order_expired"}, Identity: dispatch.Identity{ID: uuid.NewString()},
		Observe: dispatch.Observers{}, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.Equal(t, []string{"orders"}, r.Dispatcher().TopicNames())
	done, err := r.Once(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(2), done.Published)
}
