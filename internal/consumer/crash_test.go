package consumer_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

// The environment of a worker that is to die.
const (
	envWindow   = "OUTBOXCTL_TEST_CRASH_WINDOW"
	envDatabase = "OUTBOXCTL_TEST_CRASH_DATABASE"
	envRedis    = "OUTBOXCTL_TEST_CRASH_REDIS"
	envPubSub   = "OUTBOXCTL_TEST_CRASH_PUBSUB"
)

// minAckDeadline is the shortest that Pub/Sub offers.
const minAckDeadline = 10 * time.Second

// shortSource gives messages of a dead worker back as early as Pub/Sub can.
func shortSource(client *pubsub.Client, concurrency int) broker.Source {
	return sourceOf(client, broker.SourceParams{
		Subscription: subscription, Concurrency: concurrency, Streams: min(concurrency, 16), Comeback: minAckDeadline,
	})
}

func sourceOf(client *pubsub.Client, p broker.SourceParams) broker.Source {
	source, err := client.Source(context.Background(), p)
	if err != nil {
		panic(err)
	}
	return source
}

// crashAt is the main function of a worker that kills itself in the window: a
// SIGKILL, so that no deferred call, flush or farewell helps it.
func crashAt(window string) {
	die := func(uuid.UUID) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	hooks := map[string]consumer.Hooks{
		"begin": {AfterBegin: die}, "effect": {AfterEffect: die}, "done": {AfterDone: die},
	}[window]
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv(envDatabase))
	rdb, err2 := consume.NewClient(os.Getenv(envRedis))
	client, err3 := pubsub.Connect(ctx, pubsub.Config{Project: devstack.DefaultProject, Emulator: os.Getenv(envPubSub)})
	if err := errors.Join(err, err2, err3); err != nil {
		panic(err)
	}
	guard, err := consume.New(rdb, notifications.Consumer, consume.Options{Lease: time.Second})
	if err != nil {
		panic(err)
	}
	worker := consumer.New(shortSource(client, 1), guard, consumer.Config{Hooks: hooks})
	worker.Router.HandleBatch(notifications.EventType, pool, consume.BatchOptions{}, notifications.Write)
	report, err := worker.Run(ctx)
	panic(errors.Join(err, errors.New("the worker survived"), errors.New(string(rune('0'+report.Processed)))))
}

// A worker is killed once for every event, always in the same window. The
// messages come back by themselves when their ack deadline has passed.
func TestKilledWorkers(t *testing.T) {
	t.Parallel()
	for _, window := range []string{"begin", "effect", "done"} {
		t.Run("after "+window, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ids := newIDs(scaled(5, 100))
			for _, id := range ids {
				w.publish(license(id, "rejected", "killed after "+window))
				killed := exec.Command(os.Args[0])
				killed.Env = append(os.Environ(), envWindow+"="+window,
					envDatabase+"="+w.dbURL, envRedis+"="+w.rdbURL, envPubSub+"="+w.fake.Addr())
				out, err := killed.CombinedOutput()
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, "%s", out)
				require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s", out)
			}
			effects := w.effects()
			if window == "begin" {
				require.Empty(t, effects, "killed before any effect")
			} else {
				require.Equal(t, once(ids), effects, "killed after the effect")
			}

			// On a busy machine messages come back while others are still to be killed, whom duplicates do not kill.
			report := w.drained(w.example(consumer.New(shortSource(w.client, 16), w.guard(consume.Options{}), consumer.Config{})))
			require.Equal(t, once(ids), w.effects())
			if window == "begin" {
				require.EqualValues(t, len(ids), report.Processed)
			} else {
				require.Zero(t, report.Processed)
				require.Positive(t, report.Duplicates)
			}
		})
	}
}
