package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dlq"
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
	}, true, consumerView(), from(app.Outbox,
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
		cfg, err := app.Config()
		if err != nil {
			return 0, err
		}
		if !cfg.BrokerSetUp() {
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

func consumerView() cli.View[stats.Consumer] {
	return cli.View[stats.Consumer]{
		ID:    func(c stats.Consumer) string { return c.Consumer },
		Empty: "no consumer is known; outboxctl consume starts one",
		Columns: cli.Columns[stats.Consumer]("consumer, subscription, workers, rate, "+
			"lag=lagSeconds, waiting=backlog, failing, gave up=gaveUp, seen=lastSeenAt, "+
			"failing since=failingSince:wide").
			Cell("subscription", func(c stats.Consumer) string { return dash(c.Subscription) }).
			Cell("rate", func(c stats.Consumer) string { return fmt.Sprintf("%.4g/s", c.Rate) }).
			Cell("lag", func(c stats.Consumer) string {
				if c.LagSeconds == nil {
					return "-"
				}
				return time.Duration(*c.LagSeconds * float64(time.Second)).Round(time.Millisecond).String()
			}).
			Style("failing", func(c stats.Consumer) cli.Style { return warnIf(c.Failing > 0) }).
			Style("gave up", func(c stats.Consumer) cli.Style { return warnIf(c.GaveUp > 0) }),
	}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return safetext.Line(text)
}

func warnIf(bad bool) cli.Style {
	if bad {
		return cli.StyleWarn
	}
	return cli.StyleFaint
}

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
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteConsumers(app)),
	}
	addFailureFilters(cmd, &params)
	cmd.Flags().IntVar(&params.Limit, "limit", cli.DefaultLimit, "show at most so many")
	return listing(app, cmd, false, failureView(), func(ctx context.Context, args []string) ([]consumers.Failure, error) {
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

func failureView() cli.View[consumers.Failure] {
	return cli.View[consumers.Failure]{
		ID:    func(f consumers.Failure) string { return f.EventID },
		Empty: "no failures",
		Columns: cli.Columns[consumers.Failure]("consumer, event=eventId:whole, type=eventType, "+
			"state, attempts:110, last=lastAt:100, first=firstAt:wide, namespace:wide, "+
			"tenant=tenantId:wide, subscription:wide, ordering key=orderingKey:wide, "+
			"error=lastError:rest").
			Style("state", func(f consumers.Failure) cli.Style { return warnIf(f.State == consumers.GaveUp) }),
	}
}
