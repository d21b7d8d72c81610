package kafka_test

import (
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/kafka"
)

func ExampleNew() {
	publisher := func() (dispatch.Publisher, error) {
		client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA_BROKERS")))
		if err != nil {
			return nil, err
		}
		return kafka.New(client, map[string]string{"orders": "shop-orders"})
	}
	_ = publisher // for dispatch.Config
}
