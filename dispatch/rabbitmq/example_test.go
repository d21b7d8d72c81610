package rabbitmq_test

import (
	"context"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/rabbitmq"
)

func ExampleNew() {
	dial := func() (*amqp.Connection, error) { return amqp.Dial(os.Getenv("AMQP_URL")) }
	publisher := rabbitmq.New(dial, map[string]string{"orders": "shop-orders"}, rabbitmq.Options{})
	defer func() { _ = publisher.Close() }()
	ctx := context.Background()
	d, err := dispatch.New(ctx, dispatch.Config{URL: os.Getenv("DATABASE_URL"), Publisher: publisher})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	log.Println(d.Run(ctx))
}
