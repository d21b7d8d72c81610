package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/fault"
)

type consumeOptions struct {
	app *cli.App

	example     bool
	name        string
	concurrency int
	streams     int
	count       int64
	idleExit    time.Duration
	failRate    float64
	noHTTP      bool // for callers inside this program that serve HTTP themselves, or not at all
}

func newConsumeCmd(app *cli.App, runF func(context.Context, *consumeOptions) error) *cobra.Command {
	opts := &consumeOptions{app: app}
	if runF == nil {
		runF = runConsume
	}
	cmd := &cobra.Command{
		Use:   "consume --example",
		Short: "Run the example consumer: idempotent, on the domain subscription",
		Long: `Receive the events of the domain subscription and, for each license_status_changed, write a row into notifications: a
pending license is a notice to the administrators, a verified or rejected one a notice to its store.

Each event takes effect once. Redis turns duplicates away; an inbox row in the effect's own transaction holds even when
Redis has forgotten. Handlers that fail release the event and are tried again; events of other types are acknowledged;
malformed messages are given back for the subscription's dead-letter policy. While Redis or the database is away nothing
is received.

A subscription hands each message to one of its workers. Workers that share the load share --consumer and --subscription;
a consumer that should see every event needs a name and a subscription of its own, which outboxctl topic ensure
--subscription creates. --count and --idle-exit end the process with 0, whichever comes first.

SIGTERM or Ctrl-C waits for the handlers under way; a second signal ends the process at once. A worker of your own imports
the package consume; examples/notifications is this one, to copy.`,
		Example: `  outboxctl consume --example
  outboxctl consume --example --count 100 --idle-exit 10s
  outboxctl topic ensure --subscription audit-sub && outboxctl consume --example --consumer audit --subscription audit-sub
  outboxctl consume --example --fail-rate 0.2 --log-level debug`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), opts) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.example, "example", false, "run the example worker (the only one there is)")
	flags.StringVar(&opts.name, "consumer", notifications.Consumer, "name in Redis keys and inbox rows; what another name has processed does not count")
	flags.IntVar(&opts.concurrency, "concurrency", consumer.DefaultConcurrency, "events handled at once")
	flags.IntVar(&opts.streams, "streams", 0, "streams to receive on (0: 4, or 64 from an emulator)")
	flags.Int64Var(&opts.count, "count", 0, "exit after acknowledging this many messages, of types it does not handle too (0: never)")
	cli.AddLimit(cmd, &opts.idleExit, "idle-exit", 0, 0, "exit when no message arrived for this long (0: never)")
	flags.Float64Var(&opts.failRate, "fail-rate", 0, "let this share of the handlers fail before their commit, to watch redelivery")
	cli.AddConfigFlags(cmd, cli.GroupConsume)
	return cmd
}

func runConsume(ctx context.Context, opts *consumeOptions) error {
	if !opts.example {
		return fault.Hint(fault.Usagef("consume needs --example: there is no other consumer in this program"),
			"outboxctl consume --example runs it; a worker of your own imports github.com/outboxctl/outboxctl/consume")
	}
	cfg, err := opts.app.Config("database.url", "redis.url", "pubsub.project")
	if err != nil {
		return err
	}
	service, err := newConsumeService(ctx, opts, cfg)
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// consumeExample runs the example consumer with its defaults and without a server of its own: the form in which it
// stands beside other services in one process.
func consumeExample(ctx context.Context, app *cli.App) error {
	return runConsume(ctx, &consumeOptions{
		app: app, example: true, name: notifications.Consumer, concurrency: consumer.DefaultConcurrency, noHTTP: true,
	})
}
