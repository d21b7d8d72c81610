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

func newDLQReplayCmd(app *cli.App) *cobra.Command {
	return changingDead(app, dlq.Replay, &cobra.Command{
		Use:   "replay [ID... | -]",
		Args:  cobra.ArbitraryArgs,
		Short: "Send dead events again",
		Long: `Send the events of dead letters again: the original row is queued again, with no
attempts counted and no error. The dead letter is marked as replayed, with who did it and why, in
the same transaction.

Specify ids (a dead letter's or an event's; - reads them from standard input) or filters. A set
chosen by filters ends when the command starts: what dies later is not replayed by it. The set is
kept in the database as a plan, which is then run; --plan only makes it, for outboxctl plan run or
the web page. outboxctl plan run resumes an interrupted run.

--ramp replays 1, 2, 5, 20, … events, waits for the outcome of each step and stops when more than
--abort-if-dead of them die again. An event that failed but is still being retried when --watch-for
is over counts with the dead.

--wait does not end before it is known what became of the events: published, dead (again), failing
(still being retried) or waiting when --timeout is over. The exit code is 0 when all were published,
and 5 otherwise.

A consumer that has already processed an event will skip it when it comes again. --check-consumers
shows how many of the set each has processed:

  not processed, replayed            the consumer processes it
  processed, replayed                the consumer skips it: nothing happens twice
  not processed, forgotten, replayed the same as without forgetting
  processed, forgotten, replayed     the consumer processes it a second time; use outboxctl consumer forget for that`,
		Example: `  outboxctl dlq replay 01890a5d-ac96-774b-bcce-b302099a8057 --note 'topic was missing'
  outboxctl dlq replay --fingerprint 3f2a9c11d0be --dry-run
  outboxctl dlq replay --fingerprint 3f2a9c11d0be --wait --timeout 2m --yes --note 'consumer corrected'
  outboxctl dlq replay --reason max_attempts --since 2h --abort-if-dead 5% --rate 200/s --yes --note 'broker is back'
  outboxctl dlq replay --type payment_settled --plan`,
	}, addReplayFlags, addForceFlag)
}

func newDLQDiscardCmd(app *cli.App) *cobra.Command {
	return changingDead(app, dlq.Discard, &cobra.Command{
		Use:   "discard [ID... | -]",
		Args:  cobra.ArbitraryArgs,
		Short: "Mark dead letters as not worth replaying",
		Long: `Mark dead letters as handled without sending their events. The mark can be taken back
with outboxctl dlq restore until cleanup removes the row. Specify ids (a dead letter's or an
event's; - reads them from standard input) or filters.`,
		Example: `  outboxctl dlq discard 01890a5d-ac96-774b-bcce-b302099a8057 --note 'test order'
  outboxctl dlq discard --reason invalid_payload --until 30d --yes --note 'no longer needed'`,
	})
}

func newDLQRestoreCmd(app *cli.App) *cobra.Command {
	return changingDead(app, dlq.Restore, &cobra.Command{
		Use:   "restore [ID... | -]",
		Args:  cobra.ArbitraryArgs,
		Short: "Take a discard back",
		Long: `Make discarded dead letters open again. Specify ids (a dead letter's or an event's; -
reads them from standard input) or filters.`,
		Example: "  outboxctl dlq restore 01890a5d-ac96-774b-bcce-b302099a8057 --note 'discarded by mistake'",
	})
}

// changingDead completes a command that changes dead letters, chosen by ids or filters.
func changingDead(app *cli.App, action dlq.Action, cmd *cobra.Command,
	flags ...changeFlags) *cobra.Command {
	filter := &outbox.Query{State: action.State()}
	addFilterFlags(cmd, filter, "that died", "state")
	return changing(cmd, &changeOptions{app: app, action: action, filter: filter}, flags...)
}

type dlqEditOptions struct {
	app *cli.App

	id, data string
	dryRun   bool
	doFlags
}

func newDLQEditCmd(app *cli.App) *cobra.Command {
	opts := &dlqEditOptions{app: app}
	cmd := &cobra.Command{
		Use:   "edit ID",
		Args:  cobra.ExactArgs(1),
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
		fmt.Fprintf(w, "%s behind it in its ordering key %s for the corrected one\n", words.Counted(l.Blocks, "event"), waits(l.Blocks))
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

func newDLQExportCmd(app *cli.App) *cobra.Command {
	filter := dlq.Query{State: dlq.StateOpen}
	cmd := &cobra.Command{
		Use:   "export [ID... | -]",
		Args:  cobra.ArbitraryArgs,
		Short: "Write dead letters as JSON lines that emit can read back after editing",
		Long: `Write dead letters as JSON lines, one event each, in the form outboxctl emit --stdin
reads. Correct the lines and emit them: the corrected event is a new event that names the old one in
its header corrects. Emitting a file twice makes no second event. Then discard the old dead letters.

Without ids or filters every open dead letter is exported, oldest first.`,
		Example: `  outboxctl dlq export --reason invalid_payload --until 2026-03-02T10:00:00Z > events.jsonl
  outboxctl emit --stdin < events.jsonl
  outboxctl dlq discard --reason invalid_payload --until 2026-03-02T10:00:00Z --note 'corrected and emitted again'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDLQExport(cmd.Context(), app, args, &filter)
		},
		ValidArgsFunction: cli.CompleteDLQIDs(app, dlq.StateOpen),
	}
	addFilterFlags(cmd, &filter, "that died")
	return cmd
}

func runDLQExport(ctx context.Context, app *cli.App, args []string, flags *dlq.Query) error {
	// What is exported is meant to be emitted.
	if err := app.RefuseEmpty(flags.FieldNames()...); err != nil {
		return err
	}
	ids, err := cli.ReadIDs(app.In, args)
	if err != nil {
		return err
	}
	filter, err := flags.Filter(app.Now())
	if err != nil {
		return err
	}
	if len(args) > 0 && filter.Narrows() {
		return fault.Usagef("give ids or filters, not both")
	}
	box, err := app.LongOutbox(ctx)
	if err != nil {
		return err
	}
	params := dlq.ExportParams{IDs: ids}
	if len(args) == 0 {
		if filter, err = filterBy(ctx, app, box, flags); err != nil {
			return err
		}
		params.Filter = &filter
	}
	result, err := box.Export(ctx, params, func(e dlq.Export) error {
		return cli.EncodeJSON(app.Out, e, "")
	})
	if kind, _ := fault.KindOf(err); err == nil || kind == fault.Partial || kind == fault.NotFound {
		fmt.Fprintf(app.Err, "exported %s\n", words.Counted(result.Written, "dead letter"))
	}
	return err
}
