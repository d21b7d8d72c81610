package cmd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

type auditFlags struct {
	dlq.AuditParams
	listFlags
	since, until string
}

func newAuditCmd(app *cli.App) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, one line per run, and take changes back",
		Long: `Show what operators changed, newest first: who, when, what, why and how many rows,
however many transactions it took. outboxctl audit show tells which events a run touched, and
outboxctl audit undo takes it back where that is possible.`,
		Example: "  outboxctl audit --since 7d --actor ann\n  outboxctl audit --dead-letters\n  outboxctl audit --event 01890a5d-ac96-774b-bcce-b302099a8057\n  outboxctl audit undo 4b6f1c8e --note 'the wrong ones'",
	}
	cmd.RunE = f.list(app, func() error { return f.check(app.Now()) }, func(ctx context.Context, cmd *cobra.Command, box *dlq.Outbox) error {
		now, err := box.Now(ctx)
		if err != nil {
			return err
		}
		if err := f.check(now); err != nil {
			return err
		}
		return cli.WritePage(app, cmd, f.output, cli.View[dlq.AuditRun]{
			ID:    func(r dlq.AuditRun) string { return r.Run },
			Empty: "nothing was changed",
			Columns: cli.Columns[dlq.AuditRun]("run:id, ended, actor, action, rows=affected, " +
				"note:rest, began:wide, transactions:wide, db user=dbUser:wide"),
		}, func(each func(dlq.AuditRun) error) (outbox.Paged, error) {
			return box.AuditRuns(ctx, f.AuditParams, each)
		})
	})
	flags := cmd.Flags()
	flags.BoolVar(&f.DeadLetters, "dead-letters", false, "only what was done to dead letters")
	flags.StringVar(&f.Actor, "actor", "", "only what this `name` did")
	flags.StringVar(&f.Action, "action", "", "only this `action`, such as dlq.replay")
	flags.StringVar(&f.ID, "event", "", "only what touched the event with this `id` (a dead letter's id is accepted too)")
	flags.StringVar(&f.RunID, "run", "", "only the run with this `id`, its beginning or the number of an audit row")
	flags.StringVar(&f.since, "since", "", "only at this `time` or later")
	flags.StringVar(&f.until, "until", "", "only before this `time`")
	app.Complete(cmd, "action", cli.OneOf(dlq.AuditActions()...))
	addListFlags(cmd, &f.listFlags, "audit row with this `number`")
	cmd.AddCommand(newAuditShowCmd(app), newAuditUndoCmd(app))
	return cmd
}

// check reads the flags by a clock, and reports what is wrong with them.
func (f *auditFlags) check(now time.Time) (err error) {
	f.Page = f.page
	if err := f.Check(); err != nil {
		return err
	}
	if f.Since, f.Until, err = outbox.ParseSpan(f.since, f.until, now); err != nil {
		return fault.As(fault.Usage, err)
	}
	return nil
}

func newAuditShowCmd(app *cli.App) *cobra.Command {
	return showing(app, &cobra.Command{
		Use:   "show RUN",
		Args:  cobra.ExactArgs(1),
		Short: "Show one run, and the events it touched",
		Long: `Show who changed what and why in one run, which events it touched, and whether it
can be undone.`,
		Example:           "  outboxctl audit show 4b6f1c8e",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteAuditRuns(app)),
	}, from(app.Outbox,
		func(ctx context.Context, box *dlq.Outbox, args []string) (*dlq.AuditRunResult, error) {
			return box.AuditRun(ctx, args[0])
		}), sayAuditRun)
}

func sayAuditRun(p *cli.Page, r *dlq.AuditRunResult) {
	fmt.Fprintf(p, "%s %s %s, by %s (database login %s)\n", safetext.Line(r.Action), r.Run,
		r.Ended.UTC().Format(time.RFC3339), safetext.Line(r.Actor), safetext.Line(r.DBUser))
	p.Field("note", cmp.Or(r.Note, "none was given"))
	p.Field("rows", words.Count(r.Changed)+" in "+words.Counted(r.Transactions, "transaction"))
	p.Field("detail", string(r.Detail))
	name := "events"
	for _, id := range r.EventIDs {
		p.Field(name, id)
		name = ""
	}
	p.Field("undo", cmp.Or(r.Undo, "not possible"))
}

func newAuditUndoCmd(app *cli.App) *cobra.Command {
	opts := &changeOptions{app: app}
	cmd := &cobra.Command{
		Use:   "undo RUN",
		Args:  cobra.ExactArgs(1),
		Short: "Take a discard, a restore, a pause or a resume back",
		Long: `Take a run back: discarded dead letters are open again, restored ones discarded
again; a pause ends or is again what it was before, and what was resumed is paused again. Only what
is still as the run left it is changed. What anyone changed since is named and left alone: exit code
5, or 4 where that is everything. What has been sent, removed or seen cannot be undone; that is exit
code 4 too.`,
		Example: "  outboxctl audit undo 4b6f1c8e --note 'the wrong ones'",
		RunE: withOutbox(app, func(ctx context.Context, box *dlq.Outbox, args []string) error {
			return runAuditUndo(ctx, opts, box, args[0])
		}),
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteAuditRuns(app)),
	}
	addChangeFlags(cmd, opts)
	return cmd
}

func runAuditUndo(ctx context.Context, opts *changeOptions, box *dlq.Outbox, run string) error {
	r, err := box.AuditRun(ctx, run)
	if err != nil {
		return err
	}
	if err := r.CannotUndo(); err != nil {
		return err
	}
	opts.audit.Note = cmp.Or(opts.audit.Note, "undo of "+r.Run)
	if opts.action = r.UndoAction(); opts.action == "" {
		return undoPause(ctx, opts, box, r)
	}
	opts.undo = r
	return runChange(ctx, opts)
}

// undoPause takes a pause or the end of one back, once it is confirmed, and prints what came of it.
func undoPause(ctx context.Context, opts *changeOptions, box *dlq.Outbox, run *dlq.AuditRunResult) error {
	p := dlq.UndoPauseParams{Run: run, Actor: opts.app.Actor(opts.audit), Note: opts.audit.Note, DryRun: true}
	would, err := box.UndoPause(ctx, p)
	if err != nil {
		return err
	}
	verb, what := "resume", safetext.Line(would.Kind+" "+would.Value)
	if would.Outcome == outbox.WouldPause {
		verb, what = "pause", what+" again "+outbox.PauseEnds(opts.app.Now(), would.Until)
	}
	pause := &pauseOptions{app: opts.app, doFlags: doFlags{output: opts.output}}
	if opts.dryRun {
		fmt.Fprintf(opts.app.Err, "would %s %s\n", verb, what)
		return pause.write(would, "")
	}
	if err := pause.confirm(ctx, opts.yes, verb, what, would.Events); err != nil {
		return err
	}
	p.DryRun = false
	r, err := box.UndoPause(ctx, p)
	if err != nil {
		return err
	}
	return pause.say(r)
}
