package cmd

import "github.com/spf13/cobra"

func newEventCmd(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "event",
		Short: "Look at events, and publish published ones once more",
	}
	cmd.AddCommand(
		newEventListCmd(app, runEventList),
		newEventShowCmd(app, runEventShow),
		newEventRepublishCmd(app, runChange),
	)
	return cmd
}
