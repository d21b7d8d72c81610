package cmd

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
)

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
	cmd.ValidArgsFunction = cli.OnlyFirst(cli.CompleteConsumers(app))
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
