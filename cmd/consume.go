package cmd

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/fault"
)

type consumeOptions struct {
	app *cli.App

	example, traceParent              bool
	name, url, command                string
	types, topics                     []string
	maxAttempts, concurrency, streams int
	count                             int64
	timeout, idleExit                 time.Duration
	noHTTP                            bool // for callers inside this program
}

func newConsumeCmd(app *cli.App) *cobra.Command {
	opts := &consumeOptions{app: app}
	cmd := &cobra.Command{
		Use:   "consume --consumer NAME (--http URL | --exec CMD)",
		Short: "Hand events to a worker in any language, or run the example consumer",
		Long: `Receive events and hand each to a worker of yours, in any language, behind a guard in
Redis that turns duplicates away. It receives from the subscriptions of the catalogue's topics, or
of those in --topic, or of those that the types in --type have; --subscription names another one.

--http posts the message's bytes to a URL, with the headers of a CloudEvent, the event's own as
outbox-NAME, its trace, and its id as Idempotency-Key. An answer of 2xx means done, 400 and 422 that
no retry helps, anything else that the event should come again: after the time in Retry-After, or
with a growing pause. --exec runs a command of the shell for each event, with the message's bytes as
its input and OUTBOX_EVENT_ID, OUTBOX_EVENT_TYPE and more in its environment. Exit code 0 means
done, 65 that no retry helps, any other that the event should come again. --type takes only these
types; others are acknowledged.

An event comes at least once, seldom twice, and never without the guard's answer. For exactly one
effect, ask inside your own transaction, as a statement of its own: SELECT outbox_first_time('NAME',
event_id), and skip when it is false.

--example writes a row into notifications for each license_status_changed: a pending license is a
notice to the administrators, a verified or rejected one a notice to its store. An inbox row in the
effect's own transaction makes it one, even when Redis has forgotten.

Handlers that fail release the event and are tried again; malformed messages, and those that keep
failing, end in the subscription's dead-letter topic. On a subscription that keeps order, later
events of an ordering key wait until the failed one succeeds or is given up. With a database,
failures are recorded there: see outboxctl consumer failures. While Redis, or the example's
database, is away nothing is received.

A subscription hands each message to one of its workers. Workers that share the load share
--consumer and --subscription; a consumer that should see every event needs a name and a
subscription of its own, which outboxctl topic ensure --subscription creates. --count and
--idle-exit end the process with 0, whichever comes first.

SIGTERM or Ctrl-C waits for the handlers under way; a second signal ends the process at once. A
worker of your own imports the package consume; examples/notifications is this one, to copy.`,
		Example: `  outboxctl consume --consumer mailer --http http://127.0.0.1:8000/events --type order.ready
  outboxctl consume --consumer mailer --exec 'python3 worker.py'
  outboxctl consume --example
  outboxctl consume --example --count 100 --idle-exit 10s
  outboxctl topic ensure --subscription audit-sub && outboxctl consume --example --consumer audit --subscription audit-sub
  outboxctl consume --example --log-level debug`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConsume(cmd.Context(), opts) },
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.url, "http", "", "post each event to this `URL`")
	flags.StringVar(&opts.command, "exec", "", "run this `command` of the shell for each event")
	flags.StringArrayVar(&opts.types, "type", nil,
		"hand over events of this `type` only (may be repeated)")
	flags.StringArrayVar(&opts.topics, "topic", nil, "receive from the subscription of this logical `topic` (may be repeated)")
	flags.IntVar(&opts.maxAttempts, "max-attempts", 0,
		"give an event up after so many failures (0: when the subscription's dead-letter policy does)")
	cli.AddLimit(cmd, &opts.timeout, "timeout", consumer.DefaultHandlerTimeout, 0,
		"how long one event may take")
	flags.BoolVar(&opts.example, "example", false, "run the example worker")
	flags.StringVar(&opts.name, "consumer", "",
		"name in Redis keys and inbox rows; what another name has processed does not count (the example's is "+notifications.Consumer+")")
	flags.IntVar(&opts.concurrency, "concurrency", consumer.DefaultConcurrency,
		"events handled at once")
	flags.IntVar(&opts.streams, "streams", 0, "streams to receive on (0: 4, or 64 from an emulator)")
	flags.Int64Var(&opts.count, "count", 0,
		"exit after acknowledging this many messages, of types it does not handle too (0: never)")
	cli.AddLimit(cmd, &opts.idleExit, "idle-exit", 0, 0,
		"exit when no message arrived for this long (0: never)")
	flags.BoolVar(&opts.traceParent, "trace-parent", false,
		"make spans part of the trace of who emitted the event, instead of linking them to it")
	app.AddConfigFlags(cmd, cli.GroupConsume)
	return cmd
}

func runConsume(ctx context.Context, opts *consumeOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	opts.app.Err = &lockedWriter{w: opts.app.Err} // several commands of --exec and the log talk at the same time
	needs := []string{"redis.url"}
	if opts.example {
		needs = append(needs, "database.url")
	}
	cfg, err := opts.app.BrokerConfig(needs...)
	if err != nil {
		return err
	}
	service, err := newConsumeService(ctx, opts, cfg)
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// check refuses what cannot be meant, and names the example's consumer.
func (o *consumeOptions) check() error {
	chosen := 0
	for _, c := range []bool{o.example, o.url != "", o.command != ""} {
		chosen += either(c, 1, 0)
	}
	switch address, err := url.Parse(o.url); {
	case chosen != 1:
		return fault.Hint(fault.Usagef("consume needs one of --http, --exec and --example"),
			"outboxctl consume --consumer NAME --http URL posts events to your worker; outboxctl consume --example runs the example")
	case o.url != "" && (err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https"):
		return fault.Usagef("--http: want an URL such as http://127.0.0.1:8000/events")
	case !o.example && o.name == "":
		return fault.Hint(fault.Usagef("consume needs --consumer"),
			"the name keeps what this consumer has processed apart from others")
	case o.example && len(o.types) > 0:
		return fault.Usagef("--type is for --http and --exec")
	}
	if flag, given := o.app.Flag("consumer"); o.example && o.name == "" && (!given || flag != "") {
		o.name = notifications.Consumer
	}
	return o.checkNumbers()
}

// checkNumbers reports every problem of the name and the numbers at once.
func (o *consumeOptions) checkNumbers() error {
	var problems []string
	if o.name == "" {
		problems = append(problems, "consumer name is empty")
	} else if err := consume.ValidateConsumer(o.name); err != nil {
		problems = append(problems, err.Error())
	}
	for _, n := range []struct {
		flag            string
		value, min, max int64
	}{
		{"concurrency", int64(o.concurrency), 1, 10_000}, {"streams", int64(o.streams), 0, 1_000},
		{"max-attempts", int64(o.maxAttempts), 0, 1_000_000},
		{"count", o.count, 0, math.MaxInt64}, // the limits of --timeout and --idle-exit are in AddLimit
	} {
		if n.value < n.min || n.value > n.max {
			problems = append(problems, fmt.Sprintf("%s %d is not between %d and %d", n.flag, n.value,
				n.min, n.max))
		}
	}
	if len(problems) > 0 {
		return fault.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

// consumeExample runs the example consumer with its defaults and without a server of its own: the
// form in which it stands beside other services in one process.
func consumeExample(ctx context.Context, app *cli.App) error {
	return runConsume(ctx, &consumeOptions{
		app: app, example: true, name: notifications.Consumer, concurrency: consumer.DefaultConcurrency, noHTTP: true,
	})
}
