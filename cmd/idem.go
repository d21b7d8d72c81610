package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

func newIdemCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "idem",
		Short: "Show and forget which events consumers have processed",
	}
	cmd.AddCommand(newIdemShowCmd(app), newIdemForgetCmd(app))
	return cmd
}
