package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func newEventRepublishCmd(app *cli.App) *cobra.Command {
	opts := &changeOptions{app: app, action: dlq.Republish, filter: &outbox.Query{Status: dlq.Republish.State()}}
	cmd := &cobra.Command{
		Use:   "republish [ID... | -]",
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
	addFilterFlags(cmd, opts.filter, "published", "status")
	finishChange(cmd, opts)
	addReplayFlags(cmd, opts)
	return cmd
}
