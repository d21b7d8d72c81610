package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

func newDLQCmd(app *cli.App) *cobra.Command {
	return group("dlq", "Find, understand and fix events that could not be published",
		`Work with dead letters: events the publisher gave up on. Each death is one dead letter; an event that is replayed and
dies again has two. Wherever an id is asked for, it may be the dead letter's or the event's.`,
		newDLQListCmd(app), newDLQShowCmd(app), newDLQReplayCmd(app), newDLQDiscardCmd(app),
		newDLQRestoreCmd(app), newDLQEditCmd(app), newDLQExportCmd(app))
}

type dlqListFlags struct {
	listFlags
	filter  dlq.Query
	groupBy string
}

func newDLQListCmd(app *cli.App) *cobra.Command {
	f := dlqListFlags{filter: dlq.Query{State: dlq.StateOpen}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first, or group them by cause",
		Long: `List dead letters, newest first. Without --state only open ones are shown: those that
have been neither replayed nor discarded.

--group-by fingerprint shows the causes behind many dead letters: the fingerprint is the error with
ids, numbers, times and quoted values taken out of it.

The list is given in pages of --limit rows; the command for the next page, or for all groups, is
printed on standard error. Every filter but --error-like is answered from an index of the open dead
letters. A search for text in errors looks at five thousand rows at most at a time, so it never
keeps the database busy for long.`,
		Example: `  outboxctl dlq list
  outboxctl dlq list --group-by fingerprint
  outboxctl dlq list --reason max_attempts --since 2h --error-like 'deadline*exceeded'
  outboxctl dlq list --type payment_settled --limit 0 -o id | outboxctl dlq replay - --dry-run`,
	}
	cmd.RunE = f.list(app, func() error { return f.check(app) }, func(ctx context.Context, cmd *cobra.Command, box *dlq.Outbox) error {
		return runDLQList(ctx, cmd, app, box, &f)
	})
	addFilterFlags(cmd, &f.filter, "that died")
	cli.AddChoice(cmd.Flags(), &f.groupBy, "group-by", "count by `column`", dlq.GroupBy()...)
	addListFlags(cmd, &f.listFlags, "dead letter with this `id`")
	app.Complete(cmd, "cursor", cli.CompleteDLQIDs(app, ""))
	return cmd
}

// check reports what is wrong with the flags.
func (f *dlqListFlags) check(app *cli.App) error {
	check := (&outbox.ListParams{Page: f.page}).Check
	if f.groupBy != "" {
		check = (&dlq.GroupParams{By: f.groupBy, Limit: f.page.Limit}).Check
		if f.page.Cursor != "" {
			return fault.Usagef("--cursor pages through dead letters, not through groups")
		}
	}
	if err := check(); err != nil {
		return err
	}
	return checkFilter(app, &f.filter)
}

func runDLQList(ctx context.Context, cmd *cobra.Command, app *cli.App, box *dlq.Outbox, f *dlqListFlags) error {
	filter, err := filterBy(ctx, app, box, &f.filter)
	if err != nil {
		return err
	}
	if f.groupBy == "" {
		return cli.WritePage(app, cmd, f.output, dlqView(), func(each func(dlq.Entry) error) (outbox.Paged, error) {
			return box.ListDeadLetters(ctx, outbox.ListParams{Filter: filter, Page: f.page}, each)
		})
	}
	result, err := box.GroupDeadLetters(ctx, dlq.GroupParams{Filter: filter, By: f.groupBy, Limit: f.page.Limit})
	if err != nil {
		return err
	}
	if err := cli.WriteList(app, f.output, cli.View[dlq.Group]{
		ID:    func(g dlq.Group) string { return g.Value },
		Empty: "no dead letters",
		Columns: cli.Columns[dlq.Group](f.groupBy+"=value, count, first=firstSeen:100, "+
			"last=lastSeen, sample=sampleId:90:id, error=sampleError:rest").
			CellFor("error", func(g dlq.Group, s *cli.CellStyle) string { return s.Error(g.SampleError, g.Value) }),
	}, result.Groups); err != nil {
		return err
	}
	if result.More {
		fmt.Fprintf(app.Err, "more groups: %s\n", cli.CommandLine(cmd, nil, map[string]string{"limit": "0"}))
	}
	return nil
}

func dlqView() cli.View[dlq.Entry] {
	return cli.View[dlq.Entry]{
		Empty: "no dead letters",
		Columns: cli.Columns[dlq.Entry]("id:id, failed=failedAt:70, type=eventType, reason:100, "+
			"attempts=attemptCount:110, state:120, error=errorMessage:rest, blocks:wide, "+
			"event=eventId:wide:id, aggregate=aggregateType aggregateId:wide, topic:wide, "+
			"namespace:wide, tenant=tenantId:wide, fingerprint:wide, "+
			"emitted=eventCreatedAt:wide, changed=stateChangedAt:wide, "+
			"corrected by=correctedBy:wide:id").
			Style("state", func(e dlq.Entry) cli.Style { return stateStyle(e.State) }).
			CellFor("error", func(e dlq.Entry, s *cli.CellStyle) string {
				return s.Error(e.ErrorMessage, e.EventType)
			}).
			Cell("blocks", func(e dlq.Entry) string { return blocks(e.Blocks) }),
	}
}

// blocks is how many events wait for a dead one.
func blocks(n int64) string {
	switch {
	case n == 0:
		return ""
	case n > dlq.BlocksBound:
		return words.Count(dlq.BlocksBound) + "+ events"
	default:
		return words.Counted(n, "event")
	}
}
