package cmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/idem"
)

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
	return listing(app, cmd, false, consumerMarkView(), func(ctx context.Context, args []string) ([]idem.Mark, error) {
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

func consumerMarkView() cli.View[idem.Mark] {
	colours := map[consume.State]cli.Style{consume.StateProcessed: cli.StyleGood, consume.StateProcessing: cli.StyleWarn, consume.StateUnknown: cli.StyleFaint}
	return cli.View[idem.Mark]{
		ID: func(m idem.Mark) string { return m.Consumer },
		Columns: cli.Columns[idem.Mark]("consumer, state, since, expires=expiresAt, "+
			"inbox=inboxAt, owner:wide, key:wide").
			Style("state", func(m idem.Mark) cli.Style { return colours[consume.State(m.State)] }),
	}
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
	announceForget(app.Err, f, result)
	if !f.DryRun {
		// Without the inbox row nothing keeps the effect single.
		rows := int64(1)
		if f.Inbox && result.InInbox {
			rows = cli.Destroys
		}
		if err := app.Confirm(ctx, f.yes, rows, "forget it"); err != nil {
			return err
		}
		if result, err = box.Forget(ctx, f.ForgetParams); err != nil {
			return err
		}
	}
	return cli.WriteObject(app, f.output, result, func(p *cli.Page) { printForget(p, result, app.Where()) })
}

// announceForget prints what will be touched.
func announceForget(w io.Writer, f *consumerForgetFlags, r idem.ForgetResult) {
	fmt.Fprintf(w, "consumer %s will forget event %s (%s in redis)\n", r.Consumer, r.EventID, r.State)
	switch {
	case r.InInbox && f.Inbox:
		fmt.Fprintln(w, "its inbox row will be removed too: the next delivery repeats the effect")
	case r.InInbox:
		fmt.Fprintln(w, "its inbox row stays, so the next delivery still has no effect; --inbox removes it")
	}
}

func printForget(w io.Writer, r idem.ForgetResult, in string) {
	if r.DryRun {
		fmt.Fprintln(w, "dry run: nothing was changed")
		return
	}
	inbox := ""
	if r.InboxRemoved {
		inbox = ", inbox row included"
	}
	fmt.Fprintf(w, "%s forgot event %s%s%s (audit %d)\n", r.Consumer, r.EventID, inbox, in, r.AuditID)
}
