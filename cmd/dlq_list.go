package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
)

// listPage is how much of an unlimited list is read at a time.
const listPage = 1000

type dlqListOptions struct {
	app *cli.App

	filter  dlqFilterFlags
	groupBy string
	limit   int
	cursor  string
	output  cli.OutputFlag
	next    func(cursor string) string
	all     func() string
}

func newDLQListCmd(app *cli.App, run func(context.Context, *dlqListOptions) error) *cobra.Command {
	opts := &dlqListOptions{app: app}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first, or group them by cause",
		Long: `List dead letters, newest first. Without --state only open ones are shown: those nobody has replayed or discarded.

--group-by fingerprint shows the causes behind many dead letters: the fingerprint is the error with ids, numbers, times
and quoted values taken out of it.

The list is given in pages of --limit rows; the command for the next page, or for all groups, is printed on standard
error. Every filter but --error-like is answered from an index of the open dead letters. A search for text in errors
looks at five thousand rows at most at a time, so it never keeps the database busy for long.`,
		Example: `  outboxctl dlq list
  outboxctl dlq list --group-by fingerprint
  outboxctl dlq list --reason max_attempts --since 2h --error-like 'deadline*exceeded'
  outboxctl dlq list --type payment_settled --limit 0 -o id | outboxctl dlq replay - --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.next = func(cursor string) string { return cli.CommandLine(cmd, nil, map[string]string{"cursor": cursor}) }
			opts.all = func() string { return cli.CommandLine(cmd, nil, map[string]string{"limit": "0"}) }
			return run(cmd.Context(), opts)
		},
	}
	addDLQFilterFlags(app, cmd, &opts.filter)
	addStateFlag(cmd, &opts.filter)
	cmd.Flags().StringVar(&opts.groupBy, "group-by", "", "count by `column`: "+strings.Join(dlq.GroupBy(), ", "))
	cmd.Flags().IntVar(&opts.limit, "limit", cli.DefaultLimit, "how many rows to show; 0 shows all")
	cmd.Flags().StringVar(&opts.cursor, "cursor", "", "start after the dead letter with this `id`")
	cli.AddOutputFlag(cmd, &opts.output, cli.ListFormats()...)
	cli.Must(cmd.RegisterFlagCompletionFunc("group-by", cobra.FixedCompletions(dlq.GroupBy(), cobra.ShellCompDirectiveNoFileComp)))
	cli.Must(cmd.RegisterFlagCompletionFunc("cursor", cli.CompleteDLQIDs(app, "")))
	return cmd
}

func runDLQList(ctx context.Context, opts *dlqListOptions) error {
	switch {
	case opts.limit < 0:
		return fault.Usagef("--limit must not be negative")
	case opts.groupBy != "" && !slices.Contains(dlq.GroupBy(), opts.groupBy):
		return fault.Usagef("--group-by: %q is none of %s", opts.groupBy, strings.Join(dlq.GroupBy(), ", "))
	case opts.groupBy != "" && opts.cursor != "":
		return fault.Usagef("--cursor pages through dead letters, not through groups")
	}
	cursor := opts.cursor
	if cursor != "" {
		var err error
		if cursor, err = operate.ParseID(cursor); err != nil {
			return err
		}
	}
	// What is wrong with the flags is said before anything is dialled.
	if _, err := opts.filter.filter(opts.app.Now()); err != nil {
		return err
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
	if opts.groupBy != "" {
		return listGroups(ctx, opts, store, filter)
	}
	scan, err := store.NewScan(filter, dlq.NewestFirst)
	if err != nil {
		return err
	}
	if cursor != "" {
		if err := scan.After(ctx, cursor); err != nil {
			return cursorError(err, cursor)
		}
	}
	last, err := writePages(opts.app, opts.output.Format, opts.limit, dlqView(),
		func(n int) ([]dlq.Entry, error) { return scan.List(ctx, n) })
	if err != nil {
		return operate.StoreError(err)
	}
	if last != nil {
		fmt.Fprintf(opts.app.Err, "more rows: %s\n", opts.next(last.ID))
	}
	return nil
}

func cursorError(err error, cursor string) error {
	if errors.Is(err, dlq.ErrNotFound) {
		return fault.NotFoundf("--cursor: no row %s", cursor)
	}
	return operate.StoreError(err)
}

func listGroups(ctx context.Context, opts *dlqListOptions, store *dlq.Store, filter dlq.Filter) error {
	const most = listPage * listPage
	limit := opts.limit
	if limit == 0 || limit > most {
		limit = most
	}
	groups, err := store.Groups(ctx, filter, opts.groupBy, limit+1) // one more than shown tells whether there are more
	if err != nil {
		return operate.StoreError(err)
	}
	shown := groups[:min(limit, len(groups))]
	if err := cli.WriteList(opts.app, opts.output.Format, dlqGroupView(opts.groupBy), shown); err != nil {
		return err
	}
	if len(shown) < len(groups) {
		fmt.Fprintf(opts.app.Err, "more groups: %s\n", opts.all())
	}
	return nil
}

// writePages prints a list page by page and returns its last row when there are more than limit (0: no limit).
func writePages[T any](a *cli.App, format string, limit int, v cli.View[T], read func(n int) ([]T, error)) (*T, error) {
	w := cli.NewListWriter(a, format, v)
	written := 0
	var last T
	for {
		want := listPage
		if limit > 0 {
			want = min(listPage-1, limit-written) + 1 // one more than shown tells whether there are more
		}
		rows, err := read(want)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if limit > 0 && written == limit {
				return &last, w.Close()
			}
			if err := w.Write(row); err != nil {
				return nil, err
			}
			last = row
			written++
		}
		if len(rows) < want {
			return nil, w.Close()
		}
	}
}

func dlqView() cli.View[dlq.Entry] {
	return cli.View[dlq.Entry]{
		ID: func(e dlq.Entry) string { return e.ID },
		Columns: []cli.Column[dlq.Entry]{
			{Head: "id", Whole: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return e.ID }},
			{Head: "failed", Spare: 3, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return s.Time(e.FailedAt) }},
			{Head: "type", Cell: func(e dlq.Entry, s *cli.CellStyle) string { return e.EventType }},
			{Head: "reason", Whole: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return e.Reason }},
			{Head: "attempts", Spare: 2, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return s.Count(int64(e.AttemptCount)) }},
			{Head: "state", Spare: 1, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return e.State }},
			{Head: "error", Spare: 4, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return e.ErrorMessage }},
			{Head: "event", Wide: true, Whole: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return e.EventID }},
			{Head: "aggregate", Wide: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return e.AggregateType + "/" + e.AggregateID }},
			{Head: "topic", Wide: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return cli.Text(e.Topic) }},
			{Head: "namespace", Wide: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return e.Namespace }},
			{Head: "tenant", Wide: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return cli.Text(e.TenantID) }},
			{Head: "fingerprint", Wide: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return cli.Text(e.Fingerprint) }},
			{Head: "emitted", Wide: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return s.TimePtr(e.EventCreatedAt) }},
			{Head: "changed", Wide: true, Cell: func(e dlq.Entry, s *cli.CellStyle) string { return s.TimePtr(e.StateChangedAt) }},
		},
	}
}

func dlqGroupView(by string) cli.View[dlq.Group] {
	return cli.View[dlq.Group]{
		ID: func(g dlq.Group) string { return g.Value },
		Columns: []cli.Column[dlq.Group]{
			{Head: by, Cell: func(g dlq.Group, s *cli.CellStyle) string { return g.Value }},
			{Head: "count", Cell: func(g dlq.Group, s *cli.CellStyle) string { return s.Count(g.Count) }},
			{Head: "first", Cell: func(g dlq.Group, s *cli.CellStyle) string { return s.Time(g.FirstSeen) }},
			{Head: "last", Cell: func(g dlq.Group, s *cli.CellStyle) string { return s.Time(g.LastSeen) }},
			{Head: "sample", Whole: true, Cell: func(g dlq.Group, s *cli.CellStyle) string { return g.SampleID }},
			{Head: "error", Cell: func(g dlq.Group, s *cli.CellStyle) string { return g.SampleError }},
		},
	}
}
