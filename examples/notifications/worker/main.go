// Command worker receives the events of one subscription and has each of them
// applied once. It needs outboxctl's package consume, PostgreSQL, Redis and
// Google's Pub/Sub client, and takes its settings from the environment:
//
//	DATABASE_URL          where the effects go
//	REDIS_URL             where the guard keeps its keys
//	GOOGLE_CLOUD_PROJECT  the project of the subscription
//	SUBSCRIPTION          the subscription
//
// outboxctl consume --example applies the same events with metrics, probes and flags around it.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"cloud.google.com/go/pubsub/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv)
	stop()
	if err != nil {
		slog.Error("worker ended", "error", err)
		os.Exit(1)
	}
}

// run receives until ctx ends. Then it finishes what is in hand.
func run(ctx context.Context, getenv func(string) string) error {
	pool, err := pgxpool.New(ctx, getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := notifications.CreateTable(ctx, pool); err != nil {
		return err
	}
	rdb, err := consume.NewClient(getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	guard, err := consume.New(rdb, notifications.Consumer, consume.Options{})
	if err != nil {
		return err
	}
	warnings, err := guard.Check(ctx)
	if err != nil && !errors.Is(err, consume.ErrUnavailable) { // one that is away may come back
		return err
	}
	for _, warning := range warnings {
		slog.Warn(warning)
	}
	client, err := pubsub.NewClient(ctx, getenv("GOOGLE_CLOUD_PROJECT"))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()

	router := consume.NewRouter(guard, consume.RouterOptions{})
	router.HandleBatch(notifications.EventType, pool, consume.BatchOptions{}, notifications.Write)
	subscriber := client.Subscriber(getenv("SUBSCRIPTION"))
	// What fails is delivered again after a pause, and ends in the subscription's
	// dead-letter topic. The router logs it.
	return router.Run(ctx, func(ctx context.Context, deliver func(consume.Delivery)) error {
		return subscriber.Receive(ctx, func(_ context.Context, m *pubsub.Message) {
			deliver(consume.Delivery{Message: m, ID: m.ID, Attributes: m.Attributes, Body: m.Data, OrderingKey: m.OrderingKey})
		})
	})
}
