package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// dlqFilterFlags choose dead letters.
type dlqFilterFlags struct {
	reasons      []string
	types        []string
	topics       []string
	fingerprints []string
	aggregate    string
	tenants      []string
	namespaces   []string
	since        string
	until        string
	errorLike    string
	state        string
}

// filterFlags names the flags that choose dead letters or events.
func filterFlags() []string {
	return []string{"reason", "type", "topic", "fingerprint", "aggregate", "tenant", "namespace", "since", "until", "error-like"}
}

// addDLQFilterFlags gives a command the filters.
func addDLQFilterFlags(app *cli.App, cmd *cobra.Command, f *dlqFilterFlags) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.reasons, "reason", nil, "of events that died for this `reason`: "+strings.Join(outbox.DeadReasons(), ", "))
	flags.StringSliceVar(&f.types, "type", nil, "of this event `type`")
	flags.StringSliceVar(&f.topics, "topic", nil, "of events for this `topic`")
	flags.StringSliceVar(&f.fingerprints, "fingerprint", nil, "with this `fingerprint` (see dlq list --group-by fingerprint)")
	flags.StringVar(&f.aggregate, "aggregate", "", "of one aggregate: its id, its type, or `type/id`; /id where an id could be taken for a type")
	flags.StringSliceVar(&f.tenants, "tenant", nil, "of this tenant's `id`")
	flags.StringSliceVar(&f.namespaces, "namespace", nil, "of this `namespace`")
	flags.StringVar(&f.since, "since", "", "that died at this `time` or later: 2026-03-01T12:00:00Z, 2026-03-01 (UTC), or how long ago: 2h, 30d")
	flags.StringVar(&f.until, "until", "", "that died before this `time`")
	flags.StringVar(&f.errorLike, "error-like", "", "whose error contains this `text` in any case; * stands for anything")
	cli.Must(cmd.RegisterFlagCompletionFunc("reason", cli.CompleteReasons(app)))
	cli.Must(cmd.RegisterFlagCompletionFunc("type", cli.CompleteTypes(app)))
	cli.Must(cmd.RegisterFlagCompletionFunc("topic", cli.CompleteTopics(app)))
	cli.Must(cmd.RegisterFlagCompletionFunc("fingerprint", cli.CompleteFingerprints(app)))
}

func addStateFlag(cmd *cobra.Command, f *dlqFilterFlags) {
	states := []string{dlq.StateOpen, dlq.StateReplayed, dlq.StateDiscarded, "all"}
	cmd.Flags().StringVar(&f.state, "state", dlq.StateOpen, "in this `state`: "+strings.Join(states, ", "))
	cli.Must(cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp)))
}

// filter checks the flags and reports everything that is wrong with them. now is the database's clock.
func (f *dlqFilterFlags) filter(now time.Time) (dlq.Filter, error) {
	out := dlq.Filter{
		State: f.state, Reasons: f.reasons, Types: f.types, Topics: f.topics, Fingerprints: f.fingerprints,
		Namespaces: f.namespaces, ErrorLike: f.errorLike,
	}
	var problems []error
	switch f.state {
	case dlq.StateOpen, dlq.StateReplayed, dlq.StateDiscarded:
	case "all":
		out.State = ""
	default:
		problems = append(problems, fmt.Errorf("--state: %q is none of open, replayed, discarded, all", f.state))
	}
	for _, r := range f.reasons {
		if !slices.Contains(outbox.DeadReasons(), r) {
			problems = append(problems, fmt.Errorf("--reason: %q is none of %s", r, strings.Join(outbox.DeadReasons(), ", ")))
		}
	}
	var err error
	if out.AggregateType, out.AggregateIDs, err = cli.ParseAggregate(f.aggregate); err != nil {
		problems = append(problems, err)
	}
	if out.Tenants, err = cli.ParseTenants(f.tenants); err != nil {
		problems = append(problems, err)
	}
	if out.Since, out.Until, err = cli.ParseSpan(f.since, f.until, now); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return dlq.Filter{}, fault.As(fault.Usage, errors.Join(problems...))
	}
	return out, nil
}
