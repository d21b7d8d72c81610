package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// addFilterFlags gives a command the filters that events and dead letters have. what happened to
// them at the times of --since and --until.
func addFilterFlags(app *cli.App, cmd *cobra.Command, f *outbox.Query, what string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Types, "type", nil, "filter by event `type`")
	flags.StringVar(&f.Aggregate, "aggregate", "",
		"filter by aggregate: its id, its type, or `type/id`; /id where a type has the same name")
	flags.StringSliceVar(&f.Tenants, "tenant", nil, "filter by tenant `id`")
	flags.StringSliceVar(&f.Namespaces, "namespace", nil, "filter by `namespace`")
	flags.StringVar(&f.Since, "since", "",
		what+" at this `time` or later: 2026-03-01T12:00:00Z, 2026-03-01 (UTC), or how long ago: 2h, 30d")
	flags.StringVar(&f.Until, "until", "", what+" before this `time`")
	app.Complete(cmd, "type", cli.CompleteTypes(app))
}

// addEventFilterFlags gives a command the filters of events.
func addEventFilterFlags(app *cli.App, cmd *cobra.Command, f *outbox.Query, what string) {
	addFilterFlags(app, cmd, f, what)
	cmd.Flags().StringSliceVar(&f.Topics, "topic", nil, "filter by the `topic` of the event type")
	app.Complete(cmd, "topic", cli.CompleteTopics(app))
}
