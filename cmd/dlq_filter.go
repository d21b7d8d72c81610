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

// addDLQFilterFlags gives a command the filters.
func addDLQFilterFlags(app *cli.App, cmd *cobra.Command, f *dlq.Query) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Reasons, "reason", nil, "of events that died for this `reason`: "+strings.Join(outbox.DeadReasons(), ", "))
	flags.StringSliceVar(&f.Types, "type", nil, "of this event `type`")
	flags.StringSliceVar(&f.Topics, "topic", nil, "of events for this `topic`")
	flags.StringSliceVar(&f.Fingerprints, "fingerprint", nil, "with this `fingerprint` (see dlq list --group-by fingerprint)")
	flags.StringVar(&f.Aggregate, "aggregate", "", "of one aggregate: its id, its type, or `type/id`; /id where a type has the same name")
	flags.StringSliceVar(&f.Tenants, "tenant", nil, "of this tenant's `id`")
	flags.StringSliceVar(&f.Namespaces, "namespace", nil, "of this `namespace`")
	flags.StringVar(&f.Since, "since", "", "that died at this `time` or later: 2026-03-01T12:00:00Z, 2026-03-01 (UTC), or how long ago: 2h, 30d")
	flags.StringVar(&f.Until, "until", "", "that died before this `time`")
	flags.BoolVar(&f.Blocking, "blocking", false, "that events of the same ordering key wait for")
	flags.StringVar(&f.ErrorLike, "error-like", "", "whose error contains this `text` in any case; * stands for anything")
	cli.Must(cmd.RegisterFlagCompletionFunc("reason", cli.CompleteReasons(app)))
	cli.Must(cmd.RegisterFlagCompletionFunc("type", cli.CompleteTypes(app)))
	cli.Must(cmd.RegisterFlagCompletionFunc("topic", cli.CompleteDeadTopics(app)))
	cli.Must(cmd.RegisterFlagCompletionFunc("fingerprint", cli.CompleteFingerprints(app)))
}

func addStateFlag(cmd *cobra.Command, f *dlq.Query) {
	states := outbox.DeadStates()
	cmd.Flags().StringVar(&f.State, "state", dlq.StateOpen, "in this `state`: "+strings.Join(states, ", "))
	cli.CompleteOneOf(cmd, "state", states)
}
