package cmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
)

type dlqAuditOptions struct {
	app *cli.App

	actor  string
	action string
	event  string
	run    string
	since  string
	until  string
	limit  int
	cursor int64
	output cli.OutputFlag
	next   func(cursor string) string
}

func newDLQAuditCmd(app *cli.App, run func(context.Context, *dlqAuditOptions) error) *cobra.Command {
	opts := &dlqAuditOptions{app: app}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, when and why",
		Long: `Show what operators changed, newest first: who, when, what, why and how many rows. Long work leaves one row per
transaction; the rows of one run share its runId.`,
		Example: "  outboxctl dlq audit --since 7d\n  outboxctl dlq audit --event 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.next = func(cursor string) string { return cli.CommandLine(cmd, nil, map[string]string{"cursor": cursor}) }
			return run(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.actor, "actor", "", "only what this `name` did")
	flags.StringVar(&opts.action, "action", "", "only this `action`, such as dlq.replay")
	flags.StringVar(&opts.event, "event", "", "only what touched the event with this `id` (a dead letter's id is accepted too)")
	flags.StringVar(&opts.run, "run", "", "only the run with this `id`")
	flags.StringVar(&opts.since, "since", "", "only at this `time` or later")
	flags.StringVar(&opts.until, "until", "", "only before this `time`")
	flags.IntVar(&opts.limit, "limit", defaultListLimit, "how many rows to show; 0 shows all")
	flags.Int64Var(&opts.cursor, "cursor", 0, "start after the audit row with this `number`")
	actions := []string{
		string(dlq.Replay), string(dlq.Discard), string(dlq.Restore), string(dlq.Republish),
		"cleanup_events", "cleanup_dlq", "cleanup_inbox", "idem_forget", "idem_forget_undone",
	}
	cli.Must(cmd.RegisterFlagCompletionFunc("action", cobra.FixedCompletions(actions, cobra.ShellCompDirectiveNoFileComp)))
	cli.Must(cmd.RegisterFlagCompletionFunc("event", cli.CompleteEventIDs(app, "")))
	cli.AddOutputFlag(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runDLQAudit(ctx context.Context, opts *dlqAuditOptions) error {
	if opts.limit < 0 || opts.cursor < 0 {
		return fault.Usagef("--limit and --cursor must not be negative")
	}
	filter := dlq.AuditFilter{Actor: opts.actor, Action: opts.action, RunID: opts.run, Before: opts.cursor}
	if opts.event != "" {
		id, err := operate.ParseID(opts.event)
		if err != nil {
			return err
		}
		filter.EventID = id
	}
	if _, _, err := parseSpan(opts.since, opts.until, opts.app.Now()); err != nil {
		return fault.As(fault.Usage, err)
	}
	store, err := opts.app.Store(ctx)
	if err != nil {
		return err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return operate.StoreError(err)
	}
	if filter.Since, filter.Until, err = parseSpan(opts.since, opts.until, now); err != nil {
		return fault.As(fault.Usage, err)
	}
	if filter.EventID != "" {
		if filter.EventID, err = store.EventID(ctx, filter.EventID); err != nil {
			return operate.StoreError(err)
		}
	}
	last, err := writePages(opts.app, opts.output.Format, opts.limit, auditView(), func(n int) ([]dlq.AuditRow, error) {
		rows, err := store.Audit(ctx, filter, n)
		if len(rows) > 0 {
			filter.Before = rows[len(rows)-1].ID
		}
		return rows, err
	})
	if err != nil {
		return operate.StoreError(err)
	}
	if last != nil {
		fmt.Fprintf(opts.app.Err, "more rows: %s\n", opts.next(strconv.FormatInt(last.ID, 10)))
	}
	return nil
}

func auditView() cli.View[dlq.AuditRow] {
	return cli.View[dlq.AuditRow]{
		ID: func(r dlq.AuditRow) string { return strconv.FormatInt(r.ID, 10) },
		Columns: []cli.Column[dlq.AuditRow]{
			{Head: "id", Cell: func(r dlq.AuditRow, s *cli.CellStyle) string { return strconv.FormatInt(r.ID, 10) }},
			{Head: "at", Cell: func(r dlq.AuditRow, s *cli.CellStyle) string { return s.Time(r.At) }},
			{Head: "actor", Cell: func(r dlq.AuditRow, s *cli.CellStyle) string { return r.Actor }},
			{Head: "action", Cell: func(r dlq.AuditRow, s *cli.CellStyle) string { return r.Action }},
			{Head: "rows", Cell: func(r dlq.AuditRow, s *cli.CellStyle) string { return s.Count(r.Affected) }},
			{Head: "reason", Cell: func(r dlq.AuditRow, s *cli.CellStyle) string { return r.Reason }},
			{Head: "db user", Wide: true, Cell: func(r dlq.AuditRow, s *cli.CellStyle) string { return r.DBUser }},
			{Head: "detail", Wide: true, Cell: func(r dlq.AuditRow, s *cli.CellStyle) string { return string(r.Detail) }},
		},
	}
}
