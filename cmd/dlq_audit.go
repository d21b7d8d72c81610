package cmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/dlq"
)

type dlqAuditOptions struct {
	app *App

	actor  string
	action string
	event  string
	run    string
	since  string
	until  string
	limit  int
	cursor int64
	output outputFlag
	next   func(cursor string) string
}

func newDLQAuditCmd(app *App, run func(context.Context, *dlqAuditOptions) error) *cobra.Command {
	opts := &dlqAuditOptions{app: app}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, when and why",
		Long: `Show what operators changed, newest first: who, when, what, why and how many rows. Long work leaves one row per
transaction; the rows of one run share its runId.`,
		Example: "  outboxctl dlq audit --since 7d\n  outboxctl dlq audit --event 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.next = func(cursor string) string { return commandLine(cmd, nil, map[string]string{"cursor": cursor}) }
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
	must(cmd.RegisterFlagCompletionFunc("action", cobra.FixedCompletions(actions, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("event", completeEventIDs(app, "")))
	addOutputFlag(cmd, &opts.output, listFormats()...)
	return cmd
}

func runDLQAudit(ctx context.Context, opts *dlqAuditOptions) error {
	if opts.limit < 0 || opts.cursor < 0 {
		return usageErrorf("--limit and --cursor must not be negative")
	}
	filter := dlq.AuditFilter{Actor: opts.actor, Action: opts.action, RunID: opts.run, Before: opts.cursor}
	if opts.event != "" {
		id, err := checkID(opts.event)
		if err != nil {
			return err
		}
		filter.EventID = id
	}
	if _, _, err := parseSpan(opts.since, opts.until, opts.app.Now()); err != nil {
		return withCode(exitUsage, err)
	}
	store, err := opts.app.store(ctx)
	if err != nil {
		return err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return dlqError(err)
	}
	if filter.Since, filter.Until, err = parseSpan(opts.since, opts.until, now); err != nil {
		return withCode(exitUsage, err)
	}
	if filter.EventID != "" {
		if filter.EventID, err = store.EventID(ctx, filter.EventID); err != nil {
			return dlqError(err)
		}
	}
	last, err := writePages(opts.app, opts.output.format, opts.limit, auditView(), func(n int) ([]dlq.AuditRow, error) {
		rows, err := store.Audit(ctx, filter, n)
		if len(rows) > 0 {
			filter.Before = rows[len(rows)-1].ID
		}
		return rows, err
	})
	if err != nil {
		return dlqError(err)
	}
	if last != nil {
		fmt.Fprintf(opts.app.Err, "more rows: %s\n", opts.next(strconv.FormatInt(last.ID, 10)))
	}
	return nil
}

func auditView() view[dlq.AuditRow] {
	return view[dlq.AuditRow]{
		id: func(r dlq.AuditRow) string { return strconv.FormatInt(r.ID, 10) },
		columns: []column[dlq.AuditRow]{
			{head: "id", cell: func(r dlq.AuditRow, s *cellStyle) string { return strconv.FormatInt(r.ID, 10) }},
			{head: "at", cell: func(r dlq.AuditRow, s *cellStyle) string { return s.time(r.At) }},
			{head: "actor", cell: func(r dlq.AuditRow, s *cellStyle) string { return r.Actor }},
			{head: "action", cell: func(r dlq.AuditRow, s *cellStyle) string { return r.Action }},
			{head: "rows", cell: func(r dlq.AuditRow, s *cellStyle) string { return s.count(r.Affected) }},
			{head: "reason", cell: func(r dlq.AuditRow, s *cellStyle) string { return r.Reason }},
			{head: "db user", wide: true, cell: func(r dlq.AuditRow, s *cellStyle) string { return r.DBUser }},
			{head: "detail", wide: true, cell: func(r dlq.AuditRow, s *cellStyle) string { return string(r.Detail) }},
		},
	}
}
