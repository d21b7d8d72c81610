package cmd

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// auditFlags choose what of the audit trail is shown.
type auditFlags struct {
	operate.AuditParams
	since  string
	until  string
	watch  cli.Watch
	output cli.Output
}

func newDLQAuditCmd(app *cli.App) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, when and why",
		Long: `Show what operators changed, newest first: who, when, what, why and how many rows. A long replay leaves
one row per transaction, which share its runId; a cleanup leaves one row per run. outboxctl audit shows one line per run.`,
		Example: "  outboxctl dlq audit --since 7d\n  outboxctl dlq audit --event 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return app.Watch(cmd.Context(), f.watch, func(ctx context.Context) error {
				box, err := f.open(ctx, app)
				if err != nil {
					return err
				}
				return cli.WritePage(app, cmd, f.output, auditView(), func(each func(operate.AuditRow) error) (outbox.Paged, error) {
					return box.Audit(ctx, f.AuditParams, each)
				})
			})
		},
	}
	f.add(cmd, app)
	cli.KnowFields[operate.AuditRow](&f.output)
	return cmd
}

// add gives a command the filters of the audit trail.
func (f *auditFlags) add(cmd *cobra.Command, app *cli.App) {
	flags := cmd.Flags()
	flags.StringVar(&f.Actor, "actor", "", "only what this `name` did")
	flags.StringVar(&f.Action, "action", "", "only this `action`, such as dlq.replay")
	flags.StringVar(&f.ID, "event", "", "only what touched the event with this `id` (a dead letter's id is accepted too)")
	flags.StringVar(&f.RunID, "run", "", "only the run with this `id`")
	flags.StringVar(&f.since, "since", "", "only at this `time` or later")
	flags.StringVar(&f.until, "until", "", "only before this `time`")
	cli.AddPageFlags(cmd, &f.Page, "audit row with this `number`")
	cli.Must(cmd.RegisterFlagCompletionFunc("action", cobra.FixedCompletions(operate.AuditActions(), cobra.ShellCompDirectiveNoFileComp)))
	cli.Must(cmd.RegisterFlagCompletionFunc("event", cli.CompleteEventIDs(app, "")))
	cli.Must(cmd.RegisterFlagCompletionFunc("run", cli.CompleteAuditRuns(app)))
	cli.AddWatchFlags(cmd, &f.watch)
	cli.AddOutputFlags(cmd, &f.output, cli.ListFormats()...)
}

// open checks the flags, and then opens the outbox, by whose clock the times are read.
func (f *auditFlags) open(ctx context.Context, app *cli.App) (*operate.Outbox, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if _, _, err := outbox.ParseSpan(f.since, f.until, app.Now()); err != nil {
		return nil, fault.As(fault.Usage, err)
	}
	box, now, err := app.OutboxNow(ctx)
	if err != nil {
		return nil, err
	}
	if f.Since, f.Until, err = outbox.ParseSpan(f.since, f.until, now); err != nil {
		return nil, fault.As(fault.Usage, err)
	}
	return box, nil
}

func auditView() cli.View[operate.AuditRow] {
	return cli.View[operate.AuditRow]{
		ID: func(r operate.AuditRow) string { return strconv.FormatInt(r.ID, 10) },
		Columns: []cli.Column[operate.AuditRow]{
			{Head: "id", Cell: func(r operate.AuditRow, s *cli.CellStyle) string { return strconv.FormatInt(r.ID, 10) }},
			{Head: "at", Cell: func(r operate.AuditRow, s *cli.CellStyle) string { return s.Time(r.At) }},
			{Head: "actor", Cell: func(r operate.AuditRow, s *cli.CellStyle) string { return r.Actor }},
			{Head: "action", Cell: func(r operate.AuditRow, s *cli.CellStyle) string { return r.Action }},
			{Head: "rows", Field: "affected", Cell: func(r operate.AuditRow, s *cli.CellStyle) string { return s.Count(r.Affected) }},
			{Head: "note", Rest: true, Cell: func(r operate.AuditRow, s *cli.CellStyle) string { return r.Note }},
			{Head: "db user", Field: "dbUser", Wide: true, Cell: func(r operate.AuditRow, s *cli.CellStyle) string { return r.DBUser }},
			{Head: "detail", Wide: true, Cell: func(r operate.AuditRow, s *cli.CellStyle) string { return string(r.Detail) }},
		},
	}
}
