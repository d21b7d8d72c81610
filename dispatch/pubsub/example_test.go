package pubsub_test

import (
	"context"
	"os"

	google "cloud.google.com/go/pubsub/v2"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/pubsub"
)

// The dispatcher inside a program that has a Pub/Sub client already.
func ExampleNew() {
	ctx := context.Background()
	client, err := google.NewClient(ctx, os.Getenv("GOOGLE_CLOUD_PROJECT"))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	d, err := dispatch.New(ctx, dispatch.Config{
		URL:       os.Getenv("DATABASE_URL"),
		Publisher: pubsub.New(client, map[string]string{"orders": "shop-orders"}),
	})
	if err != nil {
		panic(err)
	}
	defer d.Close()
	if err := d.Run(ctx); err != nil {
		panic(err)
	}
}
