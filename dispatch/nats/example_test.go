package nats_test

import (
	"context"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/outboxctl/outboxctl/dispatch"
	natspublisher "github.com/outboxctl/outboxctl/dispatch/nats"
)

func ExampleNew() {
	run := func(ctx context.Context) error {
		conn, err := nats.Connect(os.Getenv("NATS_URL"), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1))
		if err != nil {
			return err
		}
		defer conn.Close()
		publisher, err := natspublisher.New(conn, map[string]string{"orders": "shop.orders"})
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
