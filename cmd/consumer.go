package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
)

func newConsumerCmd(app *cli.App) *cobra.Command {
	return group("consumer", "Show consumers, what they fail on and what they remember", "",
		newConsumerListCmd(app), newConsumerFailuresCmd(app), newConsumerRetryCmd(app), newConsumerShowCmd(app), newConsumerForgetCmd(app))
}

func newConsumerListCmd(app *cli.App) *cobra.Command {
	return listing(app, &cobra.Command{
		Use:   "list",
		Short: "Show the consumers: subscription, rate, lag and what fails",
		Long: `Show every consumer that runs with the outbox's database, or has failures recorded
there: where it receives from, how many workers it has, how many events a second they handle, the
age of the oldest event they handled in the last seconds (lag), how many messages wait at the broker
(NATS, Kafka and RabbitMQ tell; Pub/Sub does not), and how many events fail or were given up.
Consumers that only announced themselves in Redis are listed by name.`,
		Example: "  outboxctl consumer list\n  outboxctl consumer list --watch\n  outboxctl consumer list -o json | jq -r '.[] | select(.failing > 0).consumer'",
	}, true, cli.View[stats.Consumer]{
		ID:    func(c stats.Consumer) string { return c.Consumer },
		Empty: "no consumer is known; outboxctl consume starts one",
		Columns: cli.Columns[stats.Consumer]("consumer, subscription, workers, rate, "+
			"lag=lagSeconds, waiting=backlog, failing, gave up=gaveUp, seen=lastSeenAt, "+
			"failing since=failingSince:wide").
			Cell("subscription", func(c stats.Consumer) string {
				return cmp.Or(safetext.Line(c.Subscription), "-")
			}).
			Cell("rate", func(c stats.Consumer) string { return fmt.Sprintf("%.4g/s", c.Rate) }).
			Cell("lag", func(c stats.Consumer) string {
				if c.LagSeconds == nil {
					return "-"
				}
				return time.Duration(*c.LagSeconds * float64(time.Second)).Round(time.Millisecond).String()
			}).
			Style("failing", func(c stats.Consumer) cli.Style { return warnIf(c.Failing > 0) }).
			Style("gave up", func(c stats.Consumer) cli.Style { return warnIf(c.GaveUp > 0) }),
	}, from(app.Outbox,
		func(ctx context.Context, box *dlq.Outbox, _ []string) ([]stats.Consumer, error) {
			list, err := consumers.List(ctx, &box.Outbox)
			if err != nil {
				return nil, err
			}
			if err := consumers.Measure(ctx, list, backlog(app)); err != nil {
				fmt.Fprintf(app.Err, "not all that waits at the broker is known: %s\n",
					safetext.Redact(err.Error()))
			}
			return list, nil
		}))
}

// backlog asks the command's broker how many messages wait for a subscription. Who looks at
// consumers need not know the broker.
func backlog(app *cli.App) func(ctx context.Context, subscription string) (int64, error) {
	return func(ctx context.Context, subscription string) (int64, error) {
		if cfg, err := app.Config(); err != nil {
			return 0, err
		} else if !cfg.BrokerSetUp() {
			return 0, errors.ErrUnsupported
		}
		client, err := app.Broker(ctx)
		if err != nil {
			return 0, err
		}
		if m, measures := client.(broker.Measurer); measures {
			return m.Backlog(ctx, subscription)
		}
		return 0, errors.ErrUnsupported
	}
}

func warnIf(bad bool) cli.Style { return either(bad, cli.StyleWarn, cli.StyleFaint) }

func newConsumerFailuresCmd(app *cli.App) *cobra.Command {
	var params consumers.FailuresParams
	cmd := &cobra.Command{
		Use:   "failures [NAME]",
		Short: "Show the events that consumers fail to handle",
		Long: `Show the events whose handlers failed, of all consumers or of one: attempts, the last
error, since when, and whether they are tried again (failing) or not (gave_up). What succeeds after
all is no longer listed. Newest events first.`,
		Example: `  outboxctl consumer failures
  outboxctl consumer failures mailer --state gave_up
  outboxctl consumer failures mailer --type order.ready -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	addFailureFilters(cmd, &params)
	cmd.Flags().IntVar(&params.Limit, "limit", cli.DefaultLimit, "show at most so many")
	return listing(app, cmd, false, cli.View[consumers.Failure]{
		ID:    func(f consumers.Failure) string { return f.EventID },
		Empty: "no failures",
		Columns: cli.Columns[consumers.Failure]("consumer, event=eventId:whole, type=eventType, "+
			"state, attempts:110, last=lastAt:100, first=firstAt:wide, namespace:wide, "+
			"tenant=tenantId:wide, subscription:wide, ordering key=orderingKey:wide, "+
			"error=lastError:rest").
			Style("state", func(f consumers.Failure) cli.Style { return warnIf(f.State == consumers.GaveUp) }),
	}, func(ctx context.Context, args []string) ([]consumers.Failure, error) {
		params.Consumer = strings.Join(args, "")
		if err := params.Check(); err != nil {
			return nil, err
		}
		box, err := app.Outbox(ctx)
		if err != nil {
			return nil, err
		}
		return consumers.Failures(ctx, box.DB, params)
	})
}

// addFailureFilters gives a command what narrows failures.
func addFailureFilters(cmd *cobra.Command, p *consumers.FailuresParams) {
	flags := cmd.Flags()
	cli.AddChoice(flags, &p.State, "state", "only those in this `state`", consumers.Failing, consumers.GaveUp)
	flags.StringVar(&p.EventType, "type", "", "only events of this type")
	flags.StringVar(&p.Namespace, "namespace", "", "only events of this namespace")
	flags.StringVar(&p.TenantID, "tenant", "", "only events of this tenant")
}

func newConsumerShowCmd(app *cli.App) *cobra.Command {
	var params idem.MarksParams
	cmd := &cobra.Command{
		Use:   "show EVENT_ID",
		Short: "Show which consumers have processed an event",
		Long: `Show, for each consumer, what Redis knows about an event (unknown, processing or
processed) and, where the database is configured, when its effect was committed. Without --consumer,
all consumers are shown that have announced themselves in Redis or written an inbox row. EVENT_ID
may also be a dead letter's id if there is a database to look it up in.`,
		Example: `  outboxctl consumer show 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d
  outboxctl consumer show 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d --consumer compliance -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteEventIDs(app, "")),
	}
	cmd.Flags().StringSliceVar(&params.Consumers, "consumer", nil, "show only these consumers (repeatable)")
	colours := map[consume.State]cli.Style{consume.StateProcessed: cli.StyleGood, consume.StateProcessing: cli.StyleWarn, consume.StateUnknown: cli.StyleFaint}
	return listing(app, cmd, false, cli.View[idem.Mark]{
		ID: func(m idem.Mark) string { return m.Consumer },
		Columns: cli.Columns[idem.Mark]("consumer, state, since, expires=expiresAt, "+
			"inbox=inboxAt, owner:wide, key:wide").
			Style("state", func(m idem.Mark) cli.Style { return colours[consume.State(m.State)] }),
	}, func(ctx context.Context, args []string) ([]idem.Mark, error) {
		params.ID = args[0]
		if err := params.Check(); err != nil {
			return nil, err
		}
		box, err := app.ConsumersOutbox(ctx)
		if err != nil {
			return nil, err
		}
		marks, err := box.Marks(ctx, params)
		if err == nil && len(marks) == 0 {
			fmt.Fprintln(app.Err, "no consumer is known; name one with --consumer")
		}
		return marks, err
	})
}

type consumerForgetFlags struct {
	idem.ForgetParams
	doFlags
}

func newConsumerForgetCmd(app *cli.App) *cobra.Command {
	var f consumerForgetFlags
	cmd := &cobra.Command{
		Use:   "forget EVENT_ID --consumer NAME --note TEXT",
		Short: "Let a consumer process an event again",
		Long: `Delete what Redis remembers about one event and consumer, so that the event is
processed again when it is delivered the next time. A consumer that keeps an inbox, as the example
does, still turns the event away: --inbox removes that row too. A failure that is recorded of it is
removed as well. EVENT_ID may also be a dead letter's id.

This publishes nothing: outboxctl event republish sends the event again. The audit row is committed
before the key is deleted, and a deletion that did not happen gets an audit row of its own.`,
		Example: `  outboxctl consumer forget 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d --consumer compliance --note "notice was lost" --dry-run
  outboxctl consumer forget 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d --consumer compliance --inbox --note "TICKET-7" --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteEventIDs(app, "")),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.ID, f.Actor, f.Note = args[0], app.Actor(f.audit), f.audit.Note
			return runConsumerForget(cmd.Context(), app, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Consumer, "consumer", "", "consumer that forgets the event")
	flags.BoolVar(&f.Inbox, "inbox", false, "remove the consumer's inbox row as well")
	flags.BoolVar(&f.Force, "force", false, "even while a handler is working on the event")
	flags.BoolVar(&f.DryRun, "dry-run", false, "show what would be forgotten, and change nothing")
	f.add(cmd)
	return cmd
}

func runConsumerForget(ctx context.Context, app *cli.App, f *consumerForgetFlags) error {
	if err := f.Check(); err != nil {
		return err
	}
	box, err := app.Outbox(ctx)
	if err != nil {
		return err
	}
	params := f.ForgetParams
	params.DryRun = true
	result, err := box.Forget(ctx, params)
	if err != nil {
		return err
	}
	w, rows := app.Err, int64(1)
	fmt.Fprintf(w, "consumer %s will forget event %s (%s in redis)\n", result.Consumer,
		result.EventID, result.State)
	switch {
	case result.InInbox && f.Inbox:
		rows = cli.Destroys // without the inbox row nothing keeps the effect single
		fmt.Fprintln(w, "its inbox row will be removed too: the next delivery repeats the effect")
	case result.InInbox:
		fmt.Fprintln(w, "its inbox row stays, so the next delivery still has no effect; --inbox removes it")
	}
	if !f.DryRun {
		if err := app.Confirm(ctx, f.yes, rows, "forget it"); err != nil {
			return err
		}
		if result, err = box.Forget(ctx, f.ForgetParams); err != nil {
			return err
		}
	}
	return cli.WriteObject(app, f.output, result, func(p *cli.Page) {
		if result.DryRun {
			fmt.Fprintln(p, "dry run: nothing was changed")
			return
		}
		fmt.Fprintf(p, "%s forgot event %s%s%s (audit %d)\n", result.Consumer, result.EventID,
			either(result.InboxRemoved, ", inbox row included", ""), app.Where(), result.AuditID)
	})
}

func newConsumerRetryCmd(app *cli.App) *cobra.Command {
	opts := &changeOptions{app: app, action: dlq.Republish}
	var params consumers.FailuresParams
	cmd := &cobra.Command{
		Use:   "retry NAME [ID... | -]",
		Short: "Let a consumer try events again that it failed to handle",
		Long: `Publish a copy of events that a consumer failed to handle, and let it try them as
often as before. The topic's other consumers get the copies too and skip what they have handled,
because they remember it. Specify ids (- reads them from standard input) or filters; without either,
everything that the consumer gave up is tried again.`,
		Example: `  outboxctl consumer retry mailer --dry-run
  outboxctl consumer retry mailer 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d --yes
  outboxctl consumer retry mailer --type order.ready --rate 100/s --yes --note 'template fixed'`,
		Args: cobra.MinimumNArgs(1),
	}
	changing(cmd, opts, addWaitFlags)
	cmd.ValidArgsFunction = nil // the first argument is a consumer
	addFailureFilters(cmd, &params)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		params.Consumer, opts.ids = args[0], args[1:]
		opts.audit.Note = cmp.Or(opts.audit.Note, "retry for consumer "+args[0])
		return runConsumerRetry(cmd.Context(), opts, params)
	}
	return cmd
}

func runConsumerRetry(ctx context.Context, opts *changeOptions, p consumers.FailuresParams) error {
	if err := p.Check(); err != nil {
		return err
	}
	if len(opts.ids) > 0 && p.Narrows() {
		return fault.Usagef("specify ids or filters, not both")
	}
	ids, err := cli.ReadIDs(opts.app.In, opts.ids)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		p.State = cmp.Or(p.State, consumers.GaveUp)
	}
	box, err := opts.app.Outbox(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		event, err := box.EventID(ctx, id)
		if err != nil {
			return err
		}
		p.EventIDs = append(p.EventIDs, event)
	}
	found, err := consumers.Failures(ctx, box.DB, p)
	if err != nil {
		return err
	}
	switch {
	case len(found) == 0 && len(p.EventIDs) > 0:
		return fault.Hint(fault.NotFoundf("consumer %s has no failure of these events", p.Consumer),
			"outboxctl consumer failures %s lists them; outboxctl event republish publishes any event once more", p.Consumer)
	case len(found) == 0:
		fmt.Fprintln(opts.app.Err, "nothing to retry")
		if opts.plan {
			return opts.noPlan()
		}
		return nil
	}
	opts.ids = nil
	for _, f := range found {
		opts.ids = append(opts.ids, f.EventID)
	}
	return runChange(ctx, opts)
}
