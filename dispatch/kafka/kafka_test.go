package kafka_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/kafka"
	"github.com/outboxctl/outboxctl/internal/outboxtest/kafkatest"
)

// The client is as any program makes it.
func TestPublishesOnAPlainClient(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(1, "shop-orders"))
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	p, err := kafka.New(client, map[string]string{"orders": "shop-orders"})
	require.NoError(t, err)
	msg := dispatch.Message{EventID: "1", Data: []byte("{}"), Attributes: map[string]string{"event_id": "1"}}
	require.Equal(t, []dispatch.Result{{MessageID: "shop-orders/0/0"}}, p.Publish(t.Context(), "orders", []dispatch.Message{msg}))
	require.Equal(t, []dispatch.Message{msg}, kafkatest.Stored(t, c, "shop-orders"))
}
