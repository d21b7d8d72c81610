package cmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

type eventListFlags struct {
	filter outbox.Query
	page   outbox.Page
	watch  cli.Watch
	output cli.Output
}

func newEventListCmd(app *cli.App) *cobra.Command {
	var f eventListFlags
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
			return app.Watch(cmd.Context(), f.watch, func(ctx context.Context) error { return runEventList(ctx, cmd, app, &f) })
		},
	}
	statuses := append(outbox.Statuses(), "all")
	cmd.Flags().StringVar(&f.filter.Status, "status", "all", "in this `status`: "+strings.Join(statuses, ", "))
	cli.Must(cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp)))
	addEventFilterFlags(app, cmd, &f.filter, "emitted")
	cli.AddPageFlags(cmd, &f.page, "event with this `id`")
	cli.Must(cmd.RegisterFlagCompletionFunc("cursor", cli.CompleteEventIDs(app, "")))
	cli.AddWatchFlags(cmd, &f.watch)
	cli.AddOutputFlags(cmd, &f.output, cli.ListFormats()...)
	cli.KnowFields[outbox.Event](&f.output)
	return cmd
}

func runEventList(ctx context.Context, cmd *cobra.Command, app *cli.App, f *eventListFlags) error {
	params := outbox.ListParams{Page: f.page}
	if err := params.Check(); err != nil {
		return err
	}
	if _, err := f.filter.Filter(app.Now()); err != nil {
		return err
	}
	o, now, err := app.OutboxNow(ctx)
	if err != nil {
		return err
	}
	if params.Filter, err = f.filter.Filter(now); err != nil {
		return err
	}
	if err := sayMisspelt(ctx, app, o, f.filter.Names()); err != nil {
		return err
	}
	return cli.WritePage(app, cmd, f.output, eventView(ctx, o), func(each func(outbox.Event) error) (outbox.Paged, error) {
		return o.ListEvents(ctx, params, each)
	})
}

func eventView(ctx context.Context, o *dlq.Outbox) cli.View[outbox.Event] {
	return cli.View[outbox.Event]{
		ID:      func(e outbox.Event) string { return e.ID },
		Empty:   "no events",
		IDs:     func(e outbox.Event) []string { return []string{e.ID} },
		Shorten: shortIDs(ctx, o),
		Columns: []cli.Column[outbox.Event]{
			{Head: "id", Whole: true, Cell: func(e outbox.Event, s *cli.CellStyle) string { return s.ID(e.ID) }},
			{Head: "emitted", Field: "createdAt", From: 70},
			{Head: "type", Field: "eventType"},
			{Head: "aggregate", Field: "aggregateType aggregateId", Rest: true, Cell: func(e outbox.Event, s *cli.CellStyle) string { return e.AggregateType + "/" + e.AggregateID }},
			{Head: "status", Style: func(e outbox.Event) cli.Style { return stateStyle(e.Status) }},
			{Head: "attempts", Field: "attemptCount", From: 120},
			{Head: "published", Field: "publishedAt", From: 110},
			{Head: "last error", Field: "lastError", Wide: true},
			{Head: "namespace", Wide: true},
			{Head: "tenant", Field: "tenantId", Wide: true},
			{Head: "ordering key", Field: "orderingKey", Wide: true},
			{Head: "dedupe key", Field: "dedupeKey", Wide: true},
			{Head: "message id", Field: "brokerMessageId", Wide: true},
		},
	}
}
