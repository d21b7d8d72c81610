package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

func newTopicCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Show and create the Pub/Sub topics and subscriptions",
	}
	cmd.AddCommand(
		newTopicListCmd(app),
		newTopicEnsureCmd(app),
	)
	return cmd
}
