package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// eventFilterFlags choose events.
type eventFilterFlags struct {
	status     string
	types      []string
	aggregate  string
	tenants    []string
	namespaces []string
	since      string
	until      string
}

// addEventFilterFlags gives a command the filters. what happened to the events at the times of --since and --until.
func addEventFilterFlags(app *cli.App, cmd *cobra.Command, f *eventFilterFlags, what string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.types, "type", nil, "of this event `type`")
	flags.StringVar(&f.aggregate, "aggregate", "", "of one aggregate: its id, its type, or `type/id`; /id where an id could be taken for a type")
	flags.StringSliceVar(&f.tenants, "tenant", nil, "of this tenant's `id`")
	flags.StringSliceVar(&f.namespaces, "namespace", nil, "of this `namespace`")
	flags.StringVar(&f.since, "since", "", what+" at this `time` or later: 2026-03-01T12:00:00Z, 2026-03-01 (UTC), or how long ago: 2h, 30d")
	flags.StringVar(&f.until, "until", "", what+" before this `time`")
	cli.Must(cmd.RegisterFlagCompletionFunc("type", cli.CompleteTypes(app)))
}

// filter checks the flags and reports everything that is wrong with them. now is the database's clock.
func (f *eventFilterFlags) filter(now time.Time) (outbox.Filter, error) {
	out := outbox.Filter{Status: f.status, Types: f.types, Namespaces: f.namespaces}
	var problems []error
	switch {
	case f.status == "all":
		out.Status = ""
	case !slices.Contains(outbox.Statuses(), f.status):
		problems = append(problems, fmt.Errorf("--status: %q is none of %s, all", f.status, strings.Join(outbox.Statuses(), ", ")))
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
		return outbox.Filter{}, fault.As(fault.Usage, errors.Join(problems...))
	}
	return out, nil
}
