package pubsub_test

import (
	"context"
	"fmt"
	"testing"

	google "cloud.google.com/go/pubsub/v2"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/pubsub"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A Pub/Sub client that a program has already becomes the Publisher of its dispatcher.
func ExampleNew() {
	client, stop := outboxtest.Example(func(t testing.TB) *google.Client {
		_, client := plainClient(t) // yours: google.NewClient(ctx, project)
		return client
	})
	defer stop()
	publisher := pubsub.New(client, map[string]string{"orders": "shop-orders"})
	// dispatch.New(ctx, dispatch.Config{URL: …, Publisher: publisher}) does what follows.
	ctx := context.Background()
	fmt.Println("ready:", publisher.Ready(ctx, "orders"))
	for _, r := range publisher.Publish(ctx, "orders", []dispatch.Message{{EventID: "1", Data: []byte("{}")}}) {
		fmt.Println("stored:", r.MessageID != "", r.Err)
	}
	fmt.Println("missing:", dispatch.ClassOf(publisher.Ready(ctx, "parcels")))
	// Output:
	// ready: <nil>
	// stored: true <nil>
	// missing: misconfigured
}
