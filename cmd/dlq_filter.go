package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// filterFlags names the flags that choose dead letters or events.
func filterFlags() []string {
	return []string{"reason", "type", "topic", "fingerprint", "aggregate", "tenant", "namespace", "since", "until", "error-like"}
}

// addDLQFilterFlags gives a command the filters of dead letters.
func addDLQFilterFlags(app *cli.App, cmd *cobra.Command, f *dlq.Query) {
	addFilterFlags(app, cmd, f, "only those that died")
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Reasons, "reason", nil, "filter by `reason`: "+strings.Join(outbox.DeadReasons(), ", "))
	flags.StringSliceVar(&f.Topics, "topic", nil, "filter by `topic`")
	flags.StringSliceVar(&f.Fingerprints, "fingerprint", nil,
		"filter by `fingerprint` (see dlq list --group-by fingerprint)")
	flags.BoolVar(&f.Blocking, "blocking", false, "only those that block later events of their ordering key")
	flags.StringVar(&f.ErrorLike, "error-like", "", "filter by `text` in the error, in any case; * matches anything")
	app.Complete(cmd, "reason", cli.CompleteReasons(app))
	app.Complete(cmd, "topic", cli.CompleteDeadTopics(app))
	app.Complete(cmd, "fingerprint", cli.CompleteFingerprints(app))
}

func addStateFlag(app *cli.App, cmd *cobra.Command, f *dlq.Query) {
	states := outbox.DeadStates()
	cmd.Flags().StringVar(&f.State, "state", dlq.StateOpen, "filter by `state`: "+strings.Join(states, ", "))
	app.Complete(cmd, "state", cli.OneOf(states...))
}
