package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func newEventCmd(app *cli.App) *cobra.Command {
	return group("event", "Look at events, publish published ones once more, retry others now", "",
		newEventListCmd(app), newEventShowCmd(app), newEventTailCmd(app), newEventRepublishCmd(app),
		newEventRetryCmd(app))
}

func newEventListCmd(app *cli.App) *cobra.Command {
	var f listFlags
	query := outbox.Query{Status: outbox.AllStates}
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
		return checkFilter(app, &query)
	}
	cmd.RunE = f.list(app, check, func(ctx context.Context, cmd *cobra.Command, box *dlq.Outbox) error {
		filter, err := filterBy(ctx, app, box, &query)
		if err != nil {
			return err
		}
		return cli.WritePage(app, cmd, f.output, eventView(), func(each func(outbox.Event) error) (outbox.Paged, error) {
			return box.ListEvents(ctx, outbox.ListParams{Filter: filter, Page: f.page}, each)
		})
	})
	addFilterFlags(cmd, &query, "emitted")
	addListFlags(cmd, &f, "event with this `id`")
	app.Complete(cmd, "cursor", cli.CompleteEventIDs(app, ""))
	return cmd
}

func eventView() cli.View[outbox.Event] {
	return cli.View[outbox.Event]{
		Empty: "no events",
		Columns: cli.Columns[outbox.Event]("id:id, emitted=createdAt:70, type=eventType, "+
			"aggregate=aggregateType aggregateId:rest, status, attempts=attemptCount:120, "+
			"published=publishedAt:110, last error=lastError:wide, namespace:wide, "+
			"tenant=tenantId:wide, ordering key=orderingKey:wide, dedupe key=dedupeKey:wide, "+
			"message id=brokerMessageId:wide").
			Style("status", func(e outbox.Event) cli.Style { return stateStyle(e.Status) }),
	}
}

func newEventTailCmd(app *cli.App) *cobra.Command {
	filter := outbox.Query{Status: outbox.AllStates}
	var every, lasts time.Duration
	var output cli.Output
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
	cli.AddOutputFlags(cmd, &output, cli.FormatTable, cli.FormatJSONL, cli.FormatID)
	return cmd
}

// tailEvents prints each event as it comes. A terminal gets lines of one shape, since a table has
// to know all of its rows.
func tailEvents(ctx context.Context, app *cli.App, o *dlq.Outbox, params outbox.TailEventsParams, output cli.Output) error {
	plain := *app
	plain.OutTTY = false
	view := eventView()
	list := cli.NewListWriter(&plain, output, view)
	if app.OutTTY && output.Form() == cli.FormatTable {
		list = cli.NewLineWriter(app, view)
	}
	return o.TailEvents(ctx, params, func(e outbox.Event) error { return list.Write(e) })
}

func newEventRepublishCmd(app *cli.App) *cobra.Command {
	filter := &outbox.Query{Status: dlq.Republish.State()}
	cmd := &cobra.Command{
		Use:   "republish [ID... | -]",
		Args:  cobra.ArbitraryArgs,
		Short: "Publish published events once more, for a consumer that came later",
		Long: `Queue events that were published already, so that they are published once more. Every
consumer of their topic gets them again; a consumer that remembers them skips them.

Specify ids (- reads them from standard input) or filters. --since and --until limit the time of
publication. A set chosen by filters ends when the command starts, and an event that has been
published again since it was chosen is left alone, so no event of the set is republished twice.`,
		Example: `  outboxctl event republish --type order_created --since 7d --dry-run
  outboxctl event republish --type order_created --since 7d --rate 100/s --yes --note 'new search index'
  outboxctl event republish --topic domain --since 2026-03-01T12:00:00Z --note 'its subscription was replaced'`,
	}
	addFilterFlags(cmd, filter, "published", "status")
	opts := &changeOptions{app: app, action: dlq.Republish, filter: filter}
	return changing(cmd, opts, addReplayFlags)
}

func newEventRetryCmd(app *cli.App) *cobra.Command {
	return changing(&cobra.Command{
		Use:   "retry [ID... | -]",
		Args:  cobra.ArbitraryArgs,
		Short: "Try events that back off, or are scheduled, now",
		Long: `Make events that wait after a failed attempt, or for their time, due now: the cause
is gone, or the event cannot wait. Attempts that were counted stay counted; events that are due,
being published, published or dead are left alone. - reads the ids from standard input.`,
		Example: `  outboxctl event retry 01890a5d-ac96-774b-bcce-b302099a8057 --wait --yes --note 'topic is back'
  outboxctl event list --status pending --type order_created -o id | outboxctl event retry - --yes`,
	}, &changeOptions{app: app, action: dlq.Retry}, addWaitFlags)
}

func newEraseCmd(app *cli.App) *cobra.Command {
	filter := &outbox.Query{Status: outbox.AllStates}
	opts := &changeOptions{app: app, action: dlq.Erase, filter: filter}
	cmd := &cobra.Command{
		Use:   "erase [EVENT... | -]",
		Args:  cobra.ArbitraryArgs,
		Short: "Remove what events carry, for good",
		Long: `Remove payload and headers of published and dead events, the copies in their dead
letters, and the error messages, which may quote them. The rows stay, with ids, types, times, keys
and the audit. It cannot be undone: an erased event is not replayed, republished or corrected.

Specify ids (an event's or a dead letter's; - reads them from standard input), an aggregate, or a
tenant. An event that waits to be published is left alone unless --discard is given: then it is
never published, and what waits behind it in its ordering key goes on. One that is being published
is left alone: try again.

Erase does not reach messages that the broker or a consumer has, backups, replicas, PostgreSQL's
logs (WAL) and, on disk, old versions of the rows until VACUUM FULL outbox_events, outbox_dlq,
outbox_consumer_failures. Keys and aggregate ids stay: do not put personal data there.`,
		Example: `  outboxctl erase 01890a5d-ac96-774b-bcce-b302099a8057 --note 'request 4711'
  outboxctl erase --aggregate license/11111111-1111-7111-8111-111111111111 --dry-run
  outboxctl erase --tenant 22222222-2222-7222-8222-222222222222 --discard --yes --note 'contract ended'`,
	}
	changing(cmd, opts)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, ids, err := outbox.ParseAggregate(filter.Aggregate); err == nil && filter.Aggregate != "" && len(ids) == 0 {
			return fault.Usagef("--aggregate %s: name one aggregate, as TYPE/ID", filter.Aggregate)
		}
		return run(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.Aggregate, "aggregate", "", "the events of one aggregate, as `TYPE/ID`")
	flags.StringSliceVar(&filter.Tenants, "tenant", nil, "the events of this `tenant`")
	flags.BoolVar(&opts.discard, "discard", false, "erase also what waits to be published, which is then never published")
	return cmd
}
