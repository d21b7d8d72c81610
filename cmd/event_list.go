package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
)

// eventFilterFlags choose events.
type eventFilterFlags struct {
	status     string
	types      []string
	aggregate  string
	tenants    []string
	namespaces []string
	since      string
	until      string
}

func eventStatuses() []string {
	return []string{dlq.StatusPending, dlq.StatusProcessing, dlq.StatusPublished, dlq.StatusDead}
}

func addEventFilterFlags(app *cli.App, cmd *cobra.Command, f *eventFilterFlags, what string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.types, "type", nil, "of this event `type`")
	flags.StringVar(&f.aggregate, "aggregate", "", "of one aggregate: its id, its type, or `type/id`")
	flags.StringSliceVar(&f.tenants, "tenant", nil, "of this tenant's `id`")
	flags.StringSliceVar(&f.namespaces, "namespace", nil, "of this `namespace`")
	flags.StringVar(&f.since, "since", "", what+" at this `time` or later: 2026-03-01T12:00:00Z, 2026-03-01 (UTC), or how long ago: 2h, 30d")
	flags.StringVar(&f.until, "until", "", what+" before this `time`")
	cli.Must(cmd.RegisterFlagCompletionFunc("type", cli.CompleteTypes(app)))
}

// filter checks the flags and reports everything that is wrong with them.
func (f *eventFilterFlags) filter(now time.Time) (dlq.EventFilter, error) {
	out := dlq.EventFilter{Status: f.status, Types: f.types, Namespaces: f.namespaces}
	var problems []error
	switch f.status {
	case "all":
		out.Status = ""
	case dlq.StatusPending, dlq.StatusProcessing, dlq.StatusPublished, dlq.StatusDead:
	default:
		problems = append(problems, fmt.Errorf("--status: %q is none of %s, all", f.status, strings.Join(eventStatuses(), ", ")))
	}
	var err error
	if out.AggregateType, out.AggregateIDs, err = parseAggregate(f.aggregate); err != nil {
		problems = append(problems, err)
	}
	if out.Tenants, err = parseTenants(f.tenants); err != nil {
		problems = append(problems, err)
	}
	if out.Since, out.Until, err = parseSpan(f.since, f.until, now); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return dlq.EventFilter{}, fault.As(fault.Usage, errors.Join(problems...))
	}
	return out, nil
}

type eventListOptions struct {
	app *cli.App

	filter eventFilterFlags
	limit  int
	cursor string
	output cli.OutputFlag
	next   func(cursor string) string
}

func newEventListCmd(app *cli.App, run func(context.Context, *eventListOptions) error) *cobra.Command {
	opts := &eventListOptions{app: app}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, newest first",
		Long: `List events, newest first: all of them by the time they were made, published ones by the time they were published,
dead ones by the time they died, waiting ones by their turn (the last in the queue first).

What has no index is looked for in short steps of at most five thousand rows: pressing Ctrl-C is always safe.`,
		Example: `  outboxctl event list --status pending
  outboxctl event list --aggregate vendor_order/01890a5d-ac96-774b-bcce-b302099a8057
  outboxctl event list --type order_created --since 1h -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("status") && cmd.Flags().Changed("state") {
				return fault.Hint(fault.Usagef("--status and --state exclude each other"), "they mean the same: give one of them")
			}
			opts.next = func(cursor string) string { return cli.CommandLine(cmd, nil, map[string]string{"cursor": cursor}) }
			return run(cmd.Context(), opts)
		},
	}
	statuses := append(eventStatuses(), "all")
	cmd.Flags().StringVar(&opts.filter.status, "status", "all", "in this `status`: "+strings.Join(statuses, ", "))
	cmd.Flags().StringVar(&opts.filter.status, "state", "all", "the same as --status")
	cli.Must(cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp)))
	cli.Must(cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp)))
	addEventFilterFlags(app, cmd, &opts.filter, "emitted")
	cmd.Flags().IntVar(&opts.limit, "limit", cli.DefaultLimit, "how many rows to show; 0 shows all")
	cmd.Flags().StringVar(&opts.cursor, "cursor", "", "start after the event with this `id`")
	cli.Must(cmd.RegisterFlagCompletionFunc("cursor", cli.CompleteEventIDs(app, "")))
	cli.AddOutputFlag(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runEventList(ctx context.Context, opts *eventListOptions) error {
	if opts.limit < 0 {
		return fault.Usagef("--limit must not be negative")
	}
	if _, err := opts.filter.filter(opts.app.Now()); err != nil {
		return err
	}
	cursor := opts.cursor
	if cursor != "" {
		var err error
		if cursor, err = operate.ParseID(cursor); err != nil {
			return err
		}
	}
	store, err := opts.app.Store(ctx)
	if err != nil {
		return err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return operate.StoreError(err)
	}
	filter, err := opts.filter.filter(now)
	if err != nil {
		return err
	}
	scan, err := store.NewEventScan(filter, dlq.NewestFirst, false)
	if err != nil {
		return err
	}
	if cursor != "" {
		if err := scan.After(ctx, cursor); err != nil {
			return cursorError(err, cursor)
		}
	}
	last, err := writePages(opts.app, opts.output.Format, opts.limit, eventView(),
		func(n int) ([]dlq.Event, error) { return scan.List(ctx, n) })
	if err != nil {
		return operate.StoreError(err)
	}
	if last != nil {
		fmt.Fprintf(opts.app.Err, "more rows: %s\n", opts.next(last.ID))
	}
	return nil
}

func eventView() cli.View[dlq.Event] {
	return cli.View[dlq.Event]{
		ID: func(e dlq.Event) string { return e.ID },
		Columns: []cli.Column[dlq.Event]{
			{Head: "id", Whole: true, Cell: func(e dlq.Event, s *cli.CellStyle) string { return e.ID }},
			{Head: "emitted", Spare: 3, Cell: func(e dlq.Event, s *cli.CellStyle) string { return s.Time(e.CreatedAt) }},
			{Head: "type", Cell: func(e dlq.Event, s *cli.CellStyle) string { return e.EventType }},
			{Head: "aggregate", Cell: func(e dlq.Event, s *cli.CellStyle) string { return e.AggregateType + "/" + e.AggregateID }},
			{Head: "status", Cell: func(e dlq.Event, s *cli.CellStyle) string { return e.Status }},
			{Head: "attempts", Spare: 1, Cell: func(e dlq.Event, s *cli.CellStyle) string { return s.Count(int64(e.AttemptCount)) }},
			{Head: "published", Spare: 2, Cell: func(e dlq.Event, s *cli.CellStyle) string { return s.TimePtr(e.PublishedAt) }},
			{Head: "last error", Wide: true, Cell: func(e dlq.Event, s *cli.CellStyle) string { return cli.Text(e.LastError) }},
			{Head: "namespace", Wide: true, Cell: func(e dlq.Event, s *cli.CellStyle) string { return e.Namespace }},
			{Head: "tenant", Wide: true, Cell: func(e dlq.Event, s *cli.CellStyle) string { return cli.Text(e.TenantID) }},
			{Head: "dedupe key", Wide: true, Cell: func(e dlq.Event, s *cli.CellStyle) string { return cli.Text(e.DedupeKey) }},
			{Head: "message id", Wide: true, Cell: func(e dlq.Event, s *cli.CellStyle) string { return cli.Text(e.BrokerMessageID) }},
		},
	}
}
