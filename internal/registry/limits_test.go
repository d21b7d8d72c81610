package registry_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/exec"
	"github.com/outboxctl/outboxctl/internal/broker/http"
	"github.com/outboxctl/outboxctl/internal/broker/kafka"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// What a destination takes in the headers of an event is the same for the emitter in Go, for outbox_emit after the catalogue
// was recorded for it, and for its publisher before it is connected.
func TestEmittersHoldTheLimitsOfTheDestination(t *testing.T) {
	t.Parallel()
	for _, kind := range []broker.Kind{{Name: "pubsub", Limits: wire.PubSubLimits()}, nats.Kind(), kafka.Kind(), rabbitmq.Kind(), http.Kind(), exec.Kind()} {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.DB(t).Pool
			types := catalogue.PackFinderz().WithLimits(kind.Limits)
			require.NoError(t, types.Apply(t.Context(), pool))
			recorded, err := catalogue.Recorded(t.Context(), pool)
			require.NoError(t, err)
			require.Equal(t, kind.Limits, recorded.Catalogue.Limits())
			value := kind.Limits.AttributeValueBytes
			if all := kind.Limits.AttributesBytes; all > 0 {
				value = min(value, all-1000) // the publisher's own attributes count there
			}
			taken := map[string]bool{strings.Repeat("x", kind.Limits.AttributeNameBytes): true, strings.Repeat("x", kind.Limits.AttributeNameBytes+1): false}
			for name, prefix := range map[string]string{"pubsub": "goog", "nats": "nats-"} {
				taken[prefix+"x"] = kind.Name != name
			}
			event := emit.Event{Type: "order_created", AggregateID: uuid.NewString(), Data: map[string]any{"checkoutGroupId": uuid.NewString(), "vendorOrderIds": []string{uuid.NewString()}}}
			try := func(headers map[string]string, ok bool) {
				t.Helper()
				event.Headers = headers
				inGo := emit.New(types).Validate(event)
				inSQL := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), `SELECT outbox_emit('order_created', NULL, gen_random_uuid(), '{}', headers => $1)`, headers)
					return err
				})
				require.Equal(t, []bool{ok, ok}, []bool{inGo == nil, inSQL == nil}, "%v\n%v", inGo, inSQL)
			}
			for name, ok := range taken {
				try(map[string]string{name: "v"}, ok)
			}
			try(map[string]string{"h": strings.Repeat("x", value)}, true)
			try(map[string]string{"h": strings.Repeat("x", kind.Limits.AttributeValueBytes+1)}, false)
			if all := kind.Limits.AttributesBytes; all > 0 {
				try(map[string]string{"h": strings.Repeat("x", all/2), "i": strings.Repeat("x", all/2)}, false)
			}
		})
	}
}

// What a topic is called at the broker is part of what is recorded: publishers follow it.
func TestARenamedTopicIsRecorded(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	reads := &pgread.DB{Pool: db.Pool}
	named := func(physical string) *registry.Registry {
		types, err := catalogue.Build(catalogue.Document{Name: "shop", Topics: map[string]string{"orders": physical}, Types: []catalogue.Type{
			{Name: "order_created", Topic: "orders", Aggregate: "checkout_group"}}})
		require.NoError(t, err)
		return &registry.Registry{Catalogue: types, Source: "shop.yaml"}
	}
	apply := func(physical string) []registry.TypeChange {
		result, err := registry.Apply(t.Context(), reads, registry.ApplyParams{Catalogue: named(physical), Actor: "ann"})
		require.NoError(t, err)
		return result.Changes
	}
	require.Len(t, apply("shop-orders"), 1)
	require.Empty(t, apply("shop-orders"))
	changes := apply("shop.orders")
	require.Len(t, changes, 1)
	require.Equal(t, []string{"topic_name"}, changes[0].Parts)
	recorded, err := registry.Recorded(t.Context(), db.Pool)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"orders": "shop.orders"}, recorded.Topics())
}
