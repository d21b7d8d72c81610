package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/rig"
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
	client, err := pubsub.Connect(ctx, pubsub.Config{Project: os.Getenv("OUTBOXCTL_PUBSUB_PROJECT"), Emulator: os.Getenv("OUTBOXCTL_PUBSUB_EMULATOR")})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	sub := client.PubSub().Subscriber(os.Getenv("TORTURE_SUBSCRIPTION"))
	sub.ReceiveSettings.NumGoroutines = workerStreams
	for ctx.Err() == nil {
		err = sub.Receive(ctx, func(_ context.Context, m *gcppubsub.Message) {
			handle(ctx, guard, pool, m)
		})
		if err != nil {
			rig.Pause(ctx, 200*time.Millisecond) // the broker is away
		}
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// handle keeps a message until its event is handled: the fake counts deliveries over all subscriptions of a topic, so that
// giving it back again and again would dead-letter the other consumer's copy.
func handle(ctx context.Context, guard *consume.Guard, pool *pgxpool.Pool, m *gcppubsub.Message) {
	if m.Attributes[consume.AttrEventType] != handledType {
		m.Ack()
		return
	}
	for {
		if apply(ctx, guard, pool, m.Attributes[consume.AttrEventID]).Ack() {
			m.Ack()
			return
		}
		if !rig.Pause(ctx, 300*time.Millisecond) {
			m.Nack()
			return
		}
	}
}

// apply outlives the order to stop: a handler under way is let finish. Done is between mark and acknowledgement, so
// Handle, which does both, is taken apart here.
func apply(ctx context.Context, guard *consume.Guard, pool *pgxpool.Pool, id string) consume.Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
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
	return outcome
}
