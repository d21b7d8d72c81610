package cmd

import (
	"context"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

type publishOptions struct {
	app *cli.App

	once       bool
	namespace  string
	tenant     string
	eventTypes []string

	// several: it is one of several contexts in this process. idle is after how long its unused
	// connections are closed.
	several bool
	idle    time.Duration
	// traces is nil where nobody wants spans.
	traces trace.TracerProvider
}

func newPublishCmd(app *cli.App) *cobra.Command {
	opts := &publishOptions{app: app}
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Move committed events to the broker, a service or a command, until stopped",
		Long: `Claim committed events, publish them and mark them published, until stopped by a
signal. Any number of publishers may run at once: each row is leased to one of them. Only the
broker's acknowledgement marks an event as published; an event whose publisher dies is taken over
when its lease ends, so duplicates are possible and consumers must be idempotent.

SIGTERM or Ctrl-C stops claiming, waits for what is in flight, settles it and gives back what was
not sent; a second signal ends the process at once.

Events go to the broker that is configured (broker). --http posts each to a service instead, and
--exec runs a command for each: no broker is needed, and what fails is a dead letter with the answer
as its error.

An emulator that only a variable (PUBSUB_EMULATOR_HOST) or the configuration file names is refused
beside a database on another machine: give --emulator on the command line to use it.

With several contexts (--context a,b or all) one process publishes several databases, each with its
own dispatcher, leases, breakers, limits and metrics (label context); those with the same broker
share its client. One that is away or not migrated is tried again and stops no other: /readyz and
outbox_context_up name it. --http-addr and the log are those outside of contexts.

With --once it ends when nothing is left to claim. Events that wait for their next attempt, or whose
topic takes nothing at the moment, are not waited for. The exit code is 5, with the counts, when
events died, when a topic takes nothing, or when events stay leased because the reply to a claim was
lost.`,
		Example: `  outboxctl publish
  outboxctl publish --once
  outboxctl publish --context all
  outboxctl publish --event-type payment_settled --event-type cash_collected
  outboxctl publish --http 'http://app:8000/outbox/{event_type}'
  outboxctl publish --exec 'python3 handler.py'
  outboxctl publish --http-addr 127.0.0.1:0 --log-level debug`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPublish(cmd.Context(), opts) },
	}
	cmd.Flags().BoolVar(&opts.once, "once", false, "publish what is due and exit")
	cmd.Flags().StringVar(&opts.namespace, "namespace", "", "publish only this namespace")
	cmd.Flags().StringVar(&opts.tenant, "tenant", "", "publish only this tenant (a UUID)")
	cmd.Flags().StringSliceVar(&opts.eventTypes, "event-type", nil, "publish only these event types, stored under their present or a former name (repeatable)")
	cli.AddConfigFlags(cmd, cli.GroupPublish)
	return cmd
}

// parse reads the flags that narrow a publisher.
func (opts *publishOptions) parse() error {
	if err := opts.app.RefuseEmpty("namespace", "tenant", "event-type"); err != nil {
		return err
	}
	if opts.tenant != "" {
		id, err := outbox.ParseTenant(opts.tenant)
		if err != nil {
			return err
		}
		opts.tenant = id.String()
	}
	return nil
}

// checkTypes refuses event types that the catalogue does not have.
func (opts *publishOptions) checkTypes(ctx context.Context, app *cli.App) error {
	if len(opts.eventTypes) == 0 {
		return nil
	}
	types, err := app.Registry(ctx)
	if err != nil {
		return err
	}
	known := types.EventTypes()
	for _, t := range opts.eventTypes {
		if !slices.Contains(known, t) {
			return fault.Hint(fault.Usagef("--event-type: %q is not in the registry", t), "known types: %s", strings.Join(known, ", "))
		}
	}
	return nil
}

// publishMemory is what the runtime is asked to stay below. Four times what may be in flight: a row
// is held as it was read and as it is sent, and without a limit the heap grows to twice of that
// before it is collected.
const publishMemory = 4 * dispatch.DefaultMaxInFlightBytes

// publishGarbage lets small events have a fifth less garbage than Go's 100 would; less still costs
// processor time.
const publishGarbage = 80

// limitMemory sets publishMemory for each dispatcher, and publishGarbage, unless the operator has
// chosen.
func limitMemory(dispatchers int) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(dispatchers) * publishMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(publishGarbage)
	}
}

func runPublish(ctx context.Context, opts *publishOptions) error {
	if err := opts.parse(); err != nil {
		return err
	}
	var err error
	if opts.traces, err = opts.app.StartTraces(ctx); err != nil {
		return err
	}
	if names := opts.app.Several(); names != nil {
		return publishContexts(ctx, opts, names)
	}
	if err := opts.checkTypes(ctx, opts.app); err != nil {
		return err
	}
	cfg, err := publishConfig(opts.app)
	if err != nil {
		return err
	}
	limitMemory(1)
	server := newPublishServer(opts.app, cfg, opts.once)
	service, err := newPublishService(ctx, opts, opts.app, cfg, server.labelled(""))
	if err != nil {
		return err
	}
	return server.around(ctx, httpd.Check{Name: "loop", Run: service.Alive}, func() []httpd.Check { return service.checks("") }, service.Run)
}

// publishConfig is the configuration of a publisher, or everything that is wrong with it.
func publishConfig(app *cli.App) (*cli.Config, error) {
	cfg, err := app.BrokerConfig("database.url")
	if err != nil {
		return nil, err
	}
	if err := cfg.Publish.Validate(); err != nil {
		return nil, cli.ConfigProblems(strings.Split(err.Error(), "\n")...)
	}
	return cfg, app.RefuseStrayEmulator()
}
