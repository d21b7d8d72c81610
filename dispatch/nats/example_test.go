package nats_test

import (
	"context"
	"log"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/outboxctl/outboxctl/dispatch"
	natspublisher "github.com/outboxctl/outboxctl/dispatch/nats"
)

func ExampleNew() {
	conn, err := nats.Connect(os.Getenv("NATS_URL"), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	publisher, err := natspublisher.New(conn, map[string]string{"orders": "shop.orders"})
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
