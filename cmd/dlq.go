package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

func newDLQCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Find, understand and fix events that could not be published",
		Long: `Work with dead letters: events the publisher gave up on. Each death is one dead letter; an event that is replayed and
dies again has two. Wherever an id is asked for, it may be the dead letter's or the event's.`,
	}
	cmd.AddCommand(
		newDLQListCmd(app),
		newDLQShowCmd(app),
		newDLQReplayCmd(app),
		newDLQDiscardCmd(app),
		newDLQRestoreCmd(app),
		newDLQEditCmd(app),
		newDLQExportCmd(app),
	)
	return cmd
}
