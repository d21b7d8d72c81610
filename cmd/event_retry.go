package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
)

func newEventRetryCmd(app *cli.App) *cobra.Command {
	opts := &changeOptions{app: app, action: dlq.Retry}
	cmd := &cobra.Command{
		Use:   "retry [ID... | -]",
		Short: "Try events that back off, or are scheduled, now",
		Long: `Make events that wait after a failed attempt, or for their time, due now: the cause
is gone, or the event cannot wait. Attempts that were counted stay counted; events that are due,
being published, published or dead are left alone. - reads the ids from standard input.`,
		Example: `  outboxctl event retry 01890a5d-ac96-774b-bcce-b302099a8057 --wait --yes --note 'topic is back'
  outboxctl event list --status pending --type order_created -o id | outboxctl event retry - --yes`,
	}
	finishChange(cmd, opts)
	addWaitFlags(cmd, opts)
	return cmd
}
