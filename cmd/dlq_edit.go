package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

type dlqEditOptions struct {
	app *cli.App

	id     string
	data   string
	dryRun bool
	doFlags
}

func newDLQEditCmd(app *cli.App) *cobra.Command {
	opts := &dlqEditOptions{app: app}
	cmd := &cobra.Command{
		Use:   "edit ID",
		Short: "Correct the payload of a dead event and send it",
		Long: `Correct what an event carries and send it. The payload opens in $VISUAL or $EDITOR;
what you write is checked against the catalogue, shown as a difference and, when you agree, emitted
as a new event that names the old one in its header corrects. The old event's dead letter is
discarded. All of that is one transaction with one audit row.

The new event has the old one's place in its ordering key: what waits behind the old one is
published after the new one is published. A dead letter is corrected once; a second operator is told
by which event.

A payload that is left as it was, and an editor that fails, change nothing. Without a terminal give
the payload with --data.`,
		Example: `  outboxctl dlq edit 01890a5d-ac96-774b-bcce-b302099a8057 --note 'amount was a text'
  outboxctl dlq show $ID --payload raw -o json --jq '.payload.data | .amountCents = 1850' | outboxctl dlq edit $ID --data - --yes
  outboxctl dlq edit 01890a5d --data @payload.json --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.id = args[0]
			return runDLQEdit(cmd.Context(), opts)
		},
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteDLQIDs(app, dlq.StateOpen)),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.data, "data", "", "the payload instead of an editor: JSON, @file, or - for standard input")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "check the payload and show the difference, and change nothing")
	opts.add(cmd)
	return cmd
}

func runDLQEdit(ctx context.Context, opts *dlqEditOptions) error {
	app := opts.app
	if err := app.RefuseEmpty("data"); err != nil {
		return err
	}
	if _, err := outbox.ParseID(opts.id); err != nil {
		return err
	}
	if opts.data == "" && !(app.InTTY && app.ErrTTY) {
		return fault.Hint(fault.Usagef("an editor needs a terminal"), "give the payload with --data '{…}', --data @file or --data -")
	}
	var data []byte
	var err error
	if opts.data != "" {
		if data, err = readData(app, opts.data); err != nil {
			return err
		}
	}
	box, err := app.Outbox(ctx)
	if err != nil {
		return err
	}
	edit, err := box.ChooseEdit(ctx, opts.id)
	if err != nil {
		return err
	}
	if opts.data == "" {
		l := edit.Letter
		if data, err = app.EditPayload(ctx, edit.Data, edit,
			"The payload of "+l.EventType+" "+l.EventID+", "+l.AggregateType+"/"+l.AggregateID+".",
			"It died of "+l.Reason+": "+safetext.Cut(l.ErrorMessage, 400)); err != nil {
			return err
		}
	}
	if edit.Same(data) {
		fmt.Fprintln(app.Err, "the payload is as it was: nothing was changed")
		return nil
	}
	if err := edit.Check(data); err != nil {
		return err
	}
	return opts.apply(ctx, edit, data)
}

// apply shows what changes, asks and does it.
func (o *dlqEditOptions) apply(ctx context.Context, edit *dlq.Editing, data []byte) error {
	w := o.app.Err
	l := edit.Letter
	fmt.Fprintf(w, "%s event %s, %s: %s\n", safetext.Line(l.EventType), l.EventID, l.Reason, safetext.Cut(safetext.Line(l.ErrorMessage), 160))
	o.app.WriteJSONDiff(w, o.app.ErrTTY, edit.Data, data)
	if l.Blocks > 0 {
		fmt.Fprintf(w, "%s behind it in its ordering key %s for the corrected one\n", words.Counted(l.Blocks, "event"), plural(l.Blocks, "waits", "wait"))
	}
	if !o.dryRun {
		const question = "send the corrected event and discard the dead letter"
		if err := o.app.Confirm(ctx, o.yes, 1, question); err != nil {
			return err
		}
	}
	r, err := edit.Apply(ctx, dlq.EditParams{Data: data, Actor: o.app.Actor(o.audit), Note: o.audit.Note, DryRun: o.dryRun})
	if err != nil {
		return err
	}
	return cli.WriteObject(o.app, o.output, r, func(p *cli.Page) {
		if r.DryRun {
			fmt.Fprintln(p, "valid: would be emitted as a new event, and the dead letter discarded")
			return
		}
		fmt.Fprintf(p, "corrected by event %s%s; see what becomes of it with: outboxctl why %[1]s\n",
			r.CorrectedBy, o.app.Where())
	})
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
