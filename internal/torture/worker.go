package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/failpoint"
)

// workerStreams is what it takes to receive faster than the fake's one message per stream and 10 ms.
const workerStreams = 16

// Work is the worker of a team that imports the package consume: guarded by Redis alone, with an effect that is
// idempotent by itself. It takes its settings from the environment and runs until ctx ends.
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
	client, err := broker.Connect(ctx, broker.Config{Project: os.Getenv("OUTBOXCTL_PUBSUB_PROJECT"), Emulator: os.Getenv("OUTBOXCTL_PUBSUB_EMULATOR")})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	sub := client.PubSub().Subscriber(os.Getenv("TORTURE_SUBSCRIPTION"))
	sub.ReceiveSettings.NumGoroutines = workerStreams
	for ctx.Err() == nil {
		err = sub.Receive(ctx, func(_ context.Context, m *pubsub.Message) {
			// Not the receiver's context: a handler under way outlives the order to stop.
			handle(context.WithoutCancel(ctx), guard, pool, m)
		})
		if err != nil {
			pause(ctx, 200*time.Millisecond) // the broker is away
		}
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func handle(ctx context.Context, guard *consume.Guard, pool *pgxpool.Pool, m *pubsub.Message) {
	if m.Attributes[consume.AttrEventType] != handledType {
		m.Ack()
		return
	}
	id := m.Attributes[consume.AttrEventID]
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	// Handle acknowledges; Done is between mark and acknowledgement, so it is taken apart here.
	outcome, _ := guard.Process(ctx, id, func(ctx context.Context) error {
		failpoint.Hit(failpoint.Begun)
		if _, err := pool.Exec(ctx, recordRun, workerConsumer, id); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, applyEffect, workerConsumer, id); err != nil {
			return err
		}
		failpoint.Hit(failpoint.Applied)
		return nil
	})
	if outcome == consume.Processed {
		failpoint.Hit(failpoint.Done)
	}
	if outcome.Ack() {
		m.Ack()
		return
	}
	pause(ctx, 200*time.Millisecond)
	m.Nack()
}
