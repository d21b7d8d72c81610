package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

func newEventCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "event",
		Short: "Look at events, and publish published ones once more",
	}
	cmd.AddCommand(
		newEventListCmd(app),
		newEventShowCmd(app),
		newEventTailCmd(app),
		newEventRepublishCmd(app),
	)
	return cmd
}
