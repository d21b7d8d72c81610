package cmd

import "github.com/spf13/cobra"

func newTopicCmd(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Show and create the Pub/Sub topics and subscriptions",
	}
	cmd.AddCommand(
		newTopicListCmd(app, runTopicList),
		newTopicEnsureCmd(app, runTopicEnsure),
	)
	return cmd
}
