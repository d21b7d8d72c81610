package cmd

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/stats"
)

func newPublishersCmd(app *cli.App) *cobra.Command {
	return listing(app, &cobra.Command{
		Use:   "publishers",
		Short: "Show which publishers there are, and what each of them holds",
		Long: `Show every publisher that sends heartbeats, or did so until a few minutes ago and did
not leave: whether it is alive, its version, how many events its leases name, since when it has the
oldest, and what it takes. A holder without a heartbeat is listed as well: its events are published
by others when its leases end.`,
		Example: "  outboxctl publishers\n  outboxctl publishers --watch\n  outboxctl publishers -o json | jq -r '.[] | select(.alive | not).id'",
	}, true, publisherView(), from(app.Outbox,
		func(ctx context.Context, box *dlq.Outbox, _ []string) ([]dispatch.Peer, error) {
			return stats.Publishers(ctx, box.DB)
		}))
}

func publisherView() cli.View[dispatch.Peer] {
	return cli.View[dispatch.Peer]{
		Empty: "no publisher is there; outboxctl publish starts one",
		Columns: cli.Columns[dispatch.Peer]("publisher=host pid, state=alive, version, "+
			"seen=lastSeenAt, leases, events=leased, oldest lease=oldestLeaseAt, "+
			"takes=namespace tenantId eventTypes:rest, started=startedAt:wide, id:wide:whole").
			Cell("publisher", func(p dispatch.Peer) string {
				if p.Host == "" {
					return p.ID
				}
				return fmt.Sprintf("%s/%d", p.Host, p.PID)
			}).
			Cell("state", publisherState).
			Style("state", func(p dispatch.Peer) cli.Style {
				if p.Alive {
					return cli.StyleGood
				}
				return cli.StyleWarn
			}).
			Cell("takes", func(p dispatch.Peer) string { return cmp.Or(p.Takes(), "-") }),
	}
}

func publisherState(p dispatch.Peer) string {
	switch {
	case p.Alive:
		return "alive"
	case p.LastSeenAt == nil:
		return "no heartbeat"
	}
	return "silent"
}
