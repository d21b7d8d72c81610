package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outboxctl/outboxctl/internal/broker/kafka"
	"github.com/outboxctl/outboxctl/internal/outboxtest/kafkatest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/sourcetest"
)

func TestSource(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(2, "orders"))
	k := connect(t, c, kafka.Config{})
	sourcetest.Run(t, k.NewPublisher(map[string]string{"orders": "orders"}), k, "mailer@orders")
}
