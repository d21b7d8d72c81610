package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func newEventCmd(app *cli.App) *cobra.Command {
	return group("event", "Look at events, publish published ones once more, retry others now", "",
		newEventListCmd(app), newEventShowCmd(app), newEventTailCmd(app), newEventRepublishCmd(app),
		newEventRetryCmd(app))
}

type eventListFlags struct {
	listFlags
	filter outbox.Query
}

func newEventListCmd(app *cli.App) *cobra.Command {
	f := eventListFlags{filter: outbox.Query{Status: outbox.AllStates}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, newest first",
		Long: `List events, newest first: all of them by the time they were made, published ones by
the time they were published, dead ones by the time they died, waiting ones by their turn (the last
in the queue first).

The time an event was made is read from its id (UUIDv7). Where an application makes random ids, all
of them are listed by their last change instead: published, dead or emitted; with --limit 0, and
while more than 20,000 wait, by id.

What has no index is looked for in short steps of at most five thousand rows: pressing Ctrl-C is
always safe.`,
		Example: `  outboxctl event list --status pending
  outboxctl event list --aggregate vendor_order/01890a5d-ac96-774b-bcce-b302099a8057
  outboxctl event list --type order_created --since 1h -o json`,
	}
	check := func() error {
		if err := (&outbox.ListParams{Page: f.page}).Check(); err != nil {
			return err
		}
		return checkFilter(app, &f.filter)
	}
	cmd.RunE = f.list(app, check, func(ctx context.Context, cmd *cobra.Command, box *dlq.Outbox) error {
		filter, err := filterBy(ctx, app, box, &f.filter)
		if err != nil {
			return err
		}
		return cli.WritePage(app, cmd, f.output, eventView(ctx, box), func(each func(outbox.Event) error) (outbox.Paged, error) {
			return box.ListEvents(ctx, outbox.ListParams{Filter: filter, Page: f.page}, each)
		})
	})
	addFilterFlags(cmd, &f.filter, "emitted")
	addListFlags[outbox.Event](cmd, &f.listFlags, "event with this `id`")
	app.Complete(cmd, "cursor", cli.CompleteEventIDs(app, ""))
	return cmd
}

func eventView(ctx context.Context, o *dlq.Outbox) cli.View[outbox.Event] {
	return cli.View[outbox.Event]{
		Empty:   "no events",
		Shorten: shortIDs(ctx, o),
		Columns: []cli.Column[outbox.Event]{
			{Head: "id", ID: true},
			{Head: "emitted", Field: "createdAt", From: 70},
			{Head: "type", Field: "eventType"},
			{Head: "aggregate", Field: "aggregateType aggregateId", Rest: true},
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
