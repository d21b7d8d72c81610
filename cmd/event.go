package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

func newEventCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "event",
		Short: "Look at events, publish published ones once more, retry others now",
	}
	cmd.AddCommand(
		newEventListCmd(app),
		newEventShowCmd(app),
		newEventTailCmd(app),
		newEventRepublishCmd(app),
		newEventRetryCmd(app),
	)
	return cmd
}
