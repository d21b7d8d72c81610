package kafka_test

import (
	"context"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/kafka"
)

func ExampleNew() {
	run := func(ctx context.Context) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA_BROKERS")))
		if err != nil {
			return err
		}
		defer client.Close()
		publisher, err := kafka.New(client, map[string]string{"orders": "shop-orders"})
		if err != nil {
			return err
		}
		d, err := dispatch.New(ctx, dispatch.Config{URL: os.Getenv("DATABASE_URL"), Publisher: publisher})
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Run(ctx)
	}
	_ = run // until its context ends
}
