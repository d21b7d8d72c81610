package cmd

import (
	"context"
	"time"

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
		Columns: cli.Columns[outbox.Event]("id:id, emitted=createdAt:70, type=eventType, "+
			"aggregate=aggregateType aggregateId:rest, status, attempts=attemptCount:120, "+
			"published=publishedAt:110, last error=lastError:wide, namespace:wide, "+
			"tenant=tenantId:wide, ordering key=orderingKey:wide, dedupe key=dedupeKey:wide, "+
			"message id=brokerMessageId:wide").
			Style("status", func(e outbox.Event) cli.Style { return stateStyle(e.Status) }),
	}
}

func newEventTailCmd(app *cli.App) *cobra.Command {
	var (
		filter = outbox.Query{Status: outbox.AllStates}
		every  time.Duration
		lasts  time.Duration
		output cli.Output
	)
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show new events as they are committed",
		Long: `Show new events as they are committed, until Ctrl-C: one line for each, with its
state at that moment. Events that are older than ten seconds when their transaction commits are seen
only while they wait.`,
		Example: "  outboxctl event tail\n  outboxctl event tail --type order_created -o jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFilter(app, &filter); err != nil {
				return err
			}
			ctx := cmd.Context()
			box, err := app.Outbox(ctx)
			if err != nil {
				return err
			}
			params := outbox.TailEventsParams{Every: every, Failed: app.Report}
			if params.Filter, err = filterBy(ctx, app, box, &filter); err != nil {
				return err
			}
			if lasts > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, lasts)
				defer stop()
			}
			err = tailEvents(ctx, app, box, params, output)
			if lasts > 0 && ctx.Err() != nil && cmd.Context().Err() == nil {
				return nil // its time was over in the middle of a look
			}
			return err
		},
	}
	addFilterFlags(cmd, &filter, "emitted", "status")
	cli.AddLimit(cmd, &every, "interval", 500*time.Millisecond, 50*time.Millisecond, "pause between two queries")
	cli.AddLimit(cmd, &lasts, "for", 0, 0, "stop after this time")
	cli.AddOutputFlags(cmd, &output, cli.FormatTable, cli.FormatJSONL, cli.FormatCSV, cli.FormatID)
	cli.KnowFields[outbox.Event](&output)
	return cmd
}

// tailEvents prints each event as it comes. A terminal gets lines of one shape, since a table has
// to know all of its rows.
func tailEvents(ctx context.Context, app *cli.App, o *dlq.Outbox, params outbox.TailEventsParams, output cli.Output) error {
	plain := *app
	plain.OutTTY = false
	view := eventView(ctx, o)
	list, err := cli.NewListWriter(&plain, output, view)
	if err != nil {
		return err
	}
	if app.OutTTY && output.Form() == cli.FormatTable {
		list = cli.NewLineWriter(app, view)
	}
	return o.TailEvents(ctx, params, func(e outbox.Event) error { return list.Write(e) })
}
