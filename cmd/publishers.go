package cmd

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/stats"
)

func newPublishersCmd(app *cli.App) *cobra.Command {
	var (
		watch  cli.Watch
		output cli.Output
	)
	cmd := &cobra.Command{
		Use:   "publishers",
		Short: "Show which publishers there are, and what each of them holds",
		Long: `Show every publisher that sends heartbeats, or did so until a few minutes ago and did not leave: whether it is alive, its version, how many
events its leases name, since when it has the oldest, and what it takes. A holder without a heartbeat is listed as well: its events are
published by others when its leases end.`,
		Example: "  outboxctl publishers\n  outboxctl publishers --watch\n  outboxctl publishers -o json | jq -r '.[] | select(.alive | not).id'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return app.Watch(cmd.Context(), watch, func(ctx context.Context) error { return runPublishers(ctx, app, output) })
		},
	}
	cli.AddWatchFlags(cmd, &watch)
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	cli.KnowFields[stats.Publisher](&output)
	return cmd
}

func runPublishers(ctx context.Context, app *cli.App, output cli.Output) error {
	box, err := app.Outbox(ctx)
	if err != nil {
		return err
	}
	list, err := stats.Publishers(ctx, box.DB)
	if err != nil {
		return err
	}
	return cli.WriteList(app, output, publisherView(), list)
}

func publisherView() cli.View[stats.Publisher] {
	return cli.View[stats.Publisher]{
		Empty: "no publisher is there; outboxctl publish starts one",
		Columns: []cli.Column[stats.Publisher]{
			{Head: "publisher", Field: "host pid", Cell: func(p stats.Publisher, _ *cli.CellStyle) string {
				if p.Host == "" {
					return p.ID
				}
				return fmt.Sprintf("%s/%d", p.Host, p.PID)
			}},
			{Head: "state", Field: "alive", Cell: func(p stats.Publisher, _ *cli.CellStyle) string {
				return publisherState(p)
			}, Style: func(p stats.Publisher) cli.Style {
				if p.Alive {
					return cli.StyleGood
				}
				return cli.StyleWarn
			}},
			{Head: "version"},
			{Head: "seen", Field: "lastSeenAt"},
			{Head: "leases"},
			{Head: "events", Field: "leased"},
			{Head: "oldest lease", Field: "oldestLeaseAt"},
			{Head: "takes", Field: "namespace tenantId eventTypes", Rest: true, Cell: func(p stats.Publisher, _ *cli.CellStyle) string {
				return cmp.Or(p.Takes(), "-")
			}},
			{Head: "started", Field: "startedAt", Wide: true},
			{Head: "id", Wide: true, Whole: true},
		},
	}
}

func publisherState(p stats.Publisher) string {
	switch {
	case p.Alive:
		return "alive"
	case p.LastSeenAt == nil:
		return "no heartbeat"
	}
	return "silent"
}
