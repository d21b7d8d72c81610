package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/dlq"
)

const (
	defaultListLimit = 50
	// listPage is how much of an unlimited list is read at a time.
	listPage = 1000
)

type dlqListOptions struct {
	app *App

	filter  dlqFilterFlags
	groupBy string
	limit   int
	cursor  string
	output  outputFlag
	next    func(cursor string) string
	all     func() string
}

func newDLQListCmd(app *App, run func(context.Context, *dlqListOptions) error) *cobra.Command {
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
			opts.next = func(cursor string) string { return commandLine(cmd, nil, map[string]string{"cursor": cursor}) }
			opts.all = func() string { return commandLine(cmd, nil, map[string]string{"limit": "0"}) }
			return run(cmd.Context(), opts)
		},
	}
	addDLQFilterFlags(app, cmd, &opts.filter, true)
	addStateFlag(cmd, &opts.filter)
	cmd.Flags().StringVar(&opts.groupBy, "group-by", "", "count by `column`: "+strings.Join(dlq.GroupBy(), ", "))
	cmd.Flags().IntVar(&opts.limit, "limit", defaultListLimit, "how many rows to show; 0 shows all")
	cmd.Flags().StringVar(&opts.cursor, "cursor", "", "start after the dead letter with this `id`")
	addOutputFlag(cmd, &opts.output, listFormats()...)
	must(cmd.RegisterFlagCompletionFunc("group-by", cobra.FixedCompletions(dlq.GroupBy(), cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("cursor", completeDLQIDs(app, "")))
	return cmd
}

func runDLQList(ctx context.Context, opts *dlqListOptions) error {
	switch {
	case opts.limit < 0:
		return usageErrorf("--limit must not be negative")
	case opts.groupBy != "" && !slices.Contains(dlq.GroupBy(), opts.groupBy):
		return usageErrorf("--group-by: %q is none of %s", opts.groupBy, strings.Join(dlq.GroupBy(), ", "))
	case opts.groupBy != "" && opts.cursor != "":
		return usageErrorf("--cursor pages through dead letters, not through groups")
	}
	cursor := opts.cursor
	if cursor != "" {
		var err error
		if cursor, err = checkID(cursor); err != nil {
			return err
		}
	}
	// What is wrong with the flags is said before anything is dialled.
	if _, err := opts.filter.filter(opts.app.Now()); err != nil {
		return err
	}
	store, err := opts.app.store(ctx)
	if err != nil {
		return err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return dlqError(err)
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
	last, err := writePages(opts.app, opts.output.format, opts.limit, dlqView(),
		func(n int) ([]dlq.Entry, error) { return scan.List(ctx, n) })
	if err != nil {
		return dlqError(err)
	}
	if last != nil {
		fmt.Fprintf(opts.app.Err, "more rows: %s\n", opts.next(last.ID))
	}
	return nil
}

func cursorError(err error, cursor string) error {
	if errors.Is(err, dlq.ErrNotFound) {
		return notFoundErrorf("--cursor: no row %s", cursor)
	}
	return dlqError(err)
}

func listGroups(ctx context.Context, opts *dlqListOptions, store *dlq.Store, filter dlq.Filter) error {
	const most = listPage * listPage
	limit := opts.limit
	if limit == 0 || limit > most {
		limit = most
	}
	groups, err := store.Groups(ctx, filter, opts.groupBy, limit+1) // one more than shown tells whether there are more
	if err != nil {
		return dlqError(err)
	}
	shown := groups[:min(limit, len(groups))]
	if err := writeList(opts.app, opts.output.format, dlqGroupView(opts.groupBy), shown); err != nil {
		return err
	}
	if len(shown) < len(groups) {
		fmt.Fprintf(opts.app.Err, "more groups: %s\n", opts.all())
	}
	return nil
}

// writePages prints a list page by page and returns its last row when there are more than limit (0: no limit).
func writePages[T any](a *App, format string, limit int, v view[T], read func(n int) ([]T, error)) (*T, error) {
	w := newListWriter(a, format, v)
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

func dlqView() view[dlq.Entry] {
	return view[dlq.Entry]{
		id: func(e dlq.Entry) string { return e.ID },
		columns: []column[dlq.Entry]{
			{head: "id", whole: true, cell: func(e dlq.Entry, s *cellStyle) string { return e.ID }},
			{head: "failed", spare: 3, cell: func(e dlq.Entry, s *cellStyle) string { return s.time(e.FailedAt) }},
			{head: "type", cell: func(e dlq.Entry, s *cellStyle) string { return e.EventType }},
			{head: "reason", whole: true, cell: func(e dlq.Entry, s *cellStyle) string { return e.Reason }},
			{head: "attempts", spare: 2, cell: func(e dlq.Entry, s *cellStyle) string { return s.count(int64(e.AttemptCount)) }},
			{head: "state", spare: 1, cell: func(e dlq.Entry, s *cellStyle) string { return e.State }},
			{head: "error", spare: 4, cell: func(e dlq.Entry, s *cellStyle) string { return e.ErrorMessage }},
			{head: "event", wide: true, whole: true, cell: func(e dlq.Entry, s *cellStyle) string { return e.EventID }},
			{head: "aggregate", wide: true, cell: func(e dlq.Entry, s *cellStyle) string { return e.AggregateType + "/" + e.AggregateID }},
			{head: "topic", wide: true, cell: func(e dlq.Entry, s *cellStyle) string { return deref(e.Topic) }},
			{head: "namespace", wide: true, cell: func(e dlq.Entry, s *cellStyle) string { return e.Namespace }},
			{head: "tenant", wide: true, cell: func(e dlq.Entry, s *cellStyle) string { return deref(e.TenantID) }},
			{head: "fingerprint", wide: true, cell: func(e dlq.Entry, s *cellStyle) string { return deref(e.Fingerprint) }},
			{head: "emitted", wide: true, cell: func(e dlq.Entry, s *cellStyle) string { return s.timePtr(e.EventCreatedAt) }},
			{head: "changed", wide: true, cell: func(e dlq.Entry, s *cellStyle) string { return s.timePtr(e.StateChangedAt) }},
		},
	}
}

func dlqGroupView(by string) view[dlq.Group] {
	return view[dlq.Group]{
		id: func(g dlq.Group) string { return g.Value },
		columns: []column[dlq.Group]{
			{head: by, cell: func(g dlq.Group, s *cellStyle) string { return g.Value }},
			{head: "count", cell: func(g dlq.Group, s *cellStyle) string { return s.count(g.Count) }},
			{head: "first", cell: func(g dlq.Group, s *cellStyle) string { return s.time(g.FirstSeen) }},
			{head: "last", cell: func(g dlq.Group, s *cellStyle) string { return s.time(g.LastSeen) }},
			{head: "sample", whole: true, cell: func(g dlq.Group, s *cellStyle) string { return g.SampleID }},
			{head: "error", cell: func(g dlq.Group, s *cellStyle) string { return g.SampleError }},
		},
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
