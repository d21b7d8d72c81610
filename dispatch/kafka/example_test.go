package kafka_test

import (
	"context"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/kafka"
)

func ExampleNew() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA_BROKERS")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	publisher, err := kafka.New(client, map[string]string{"orders": "shop-orders"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	d, err := dispatch.New(ctx, dispatch.Config{URL: os.Getenv("DATABASE_URL"), Publisher: publisher})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	log.Println(d.Run(ctx))
}
