package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

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
