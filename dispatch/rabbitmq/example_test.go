package rabbitmq_test

import (
	"context"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/rabbitmq"
)

func ExampleNew() {
	run := func(ctx context.Context) error {
		dial := func() (*amqp.Connection, error) { return amqp.Dial(os.Getenv("AMQP_URL")) }
		publisher := rabbitmq.New(dial, map[string]string{"orders": "shop-orders"}, rabbitmq.Options{})
		defer func() { _ = publisher.Close() }()
		d, err := dispatch.New(ctx, dispatch.Config{URL: os.Getenv("DATABASE_URL"), Publisher: publisher})
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Run(ctx)
	}
	_ = run // until its context ends
}
