package torture

import (
	"context"
	"fmt"
	"os"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/failpoint"
)

// workerStreams is what it takes to receive faster than the fake's one message per stream and 10
// ms.
const workerStreams = 16

// Work is the worker of a team that imports the package consume: guarded by Redis alone, with an
// effect that is idempotent by itself. It takes its settings from the environment and runs until
// ctx ends.
func Work(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("OUTBOXCTL_DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("open the effects' database: %w", err)
	}
	defer pool.Close()
	rdb, err := consume.NewClient(os.Getenv("OUTBOXCTL_REDIS_URL"))
	if err != nil {
		return fmt.Errorf("open redis: %w", err)
	}
	defer func() { _ = rdb.Close() }()
	guard, err := consume.New(rdb, workerConsumer, consume.Options{Lease: 5 * time.Second})
	if err != nil {
		return err
	}
	client, err := pubsub.Connect(ctx, pubsub.Config{
		Project: os.Getenv("OUTBOXCTL_PUBSUB_PROJECT"), Emulator: os.Getenv("OUTBOXCTL_PUBSUB_EMULATOR"),
	})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	r := consume.NewRouter(guard, consume.RouterOptions{
		Timeout: 20 * time.Second,
		Observer: consume.Observer{Settled: func(_ consume.Delivery, outcome consume.Outcome, _ error) {
			if outcome == consume.Processed {
				failpoint.Hit(failpoint.Done) // between mark and acknowledgement
			}
		}},
	})
	r.Handle(handledType, func(ctx context.Context, e consume.Event) error {
		failpoint.Hit(failpoint.Begun)
		if _, err := pool.Exec(ctx, recordRun, workerConsumer, e.ID); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, applyEffect, workerConsumer, e.ID); err != nil {
			return err
		}
		failpoint.Hit(failpoint.Applied)
		return nil
	})
	sub := client.PubSub().Subscriber(os.Getenv("TORTURE_SUBSCRIPTION"))
	sub.ReceiveSettings.NumGoroutines = workerStreams
	return r.Run(ctx, func(ctx context.Context, deliver func(consume.Delivery)) error {
		return sub.Receive(ctx, func(_ context.Context, m *gcppubsub.Message) {
			deliver(consume.Delivery{Message: m, ID: m.ID, Attributes: m.Attributes, Body: m.Data})
		})
	})
}
