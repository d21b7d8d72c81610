package cmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/idem"
)

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
	return cli.WriteObject(app, f.output, result, func(w io.Writer) error { return printForget(w, result, app.Where()) })
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

func printForget(w io.Writer, r idem.ForgetResult, in string) error {
	var err error
	switch {
	case r.DryRun:
		_, err = fmt.Fprintln(w, "dry run: nothing was changed")
	case r.InboxRemoved:
		_, err = fmt.Fprintf(w, "%s forgot event %s, inbox row included%s (audit %d)\n", r.Consumer, r.EventID, in, r.AuditID)
	default:
		_, err = fmt.Fprintf(w, "%s forgot event %s%s (audit %d)\n", r.Consumer, r.EventID, in, r.AuditID)
	}
	return err
}
