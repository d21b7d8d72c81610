package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
)

func newEventRepublishCmd(app *cli.App, run func(context.Context, *changeOptions) error) *cobra.Command {
	opts := &changeOptions{app: app, action: dlq.Republish}
	filter := &eventFilterFlags{status: dlq.StatusDelivered}
	cmd := &cobra.Command{
		Use:   "republish [ID... | -]",
		Short: "Publish published events once more, for a consumer that came later",
		Long: `Queue events that were published already, so that they are published once more. Every consumer of their topic gets
them again; a consumer that remembers them skips them.

Say which: ids (- reads them from standard input), filters, or --apply with a plan. --since and --until limit the time of
publication. A set chosen by filters ends when the command starts, and an event that has been published again since it
was chosen is left alone, so no event of the set is republished twice.`,
		Example: `  outboxctl event republish --type order_created --since 7d --dry-run
  outboxctl event republish --type order_created --since 7d --plan republish.json
  outboxctl event republish --apply republish.json --rate 100/s --yes --reason 'new search index'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ids = args
			return run(cmd.Context(), opts)
		},
		ValidArgsFunction: cli.CompleteEventIDs(app, dlq.StatusDelivered),
	}
	opts.choose = func(now time.Time) (changeFilter, error) {
		f, err := filter.filter(now)
		return eventChangeFilter{f}, err
	}
	addEventFilterFlags(app, cmd, filter, "published")
	addChangeFlags(cmd, opts)
	addReplayFlags(cmd, opts)
	return cmd
}

// eventChangeFilter is a filter of events to publish again.
type eventChangeFilter struct{ dlq.EventFilter }

func (f eventChangeFilter) narrows() bool { return f.Narrows() }
func (f eventChangeFilter) record() any   { return f.EventFilter }

// frozen ends the set at now: what is published again by this run must not be chosen by it once more.
func (f eventChangeFilter) frozen(now time.Time) (changeFilter, map[string]string) {
	if f.Until.IsZero() || f.Until.After(now) {
		f.Until = now
	}
	set := map[string]string{"until": f.Until.UTC().Format(time.RFC3339Nano)}
	if !f.Since.IsZero() {
		set["since"] = f.Since.UTC().Format(time.RFC3339Nano)
	}
	return f, set
}

func (f eventChangeFilter) source(store *dlq.Store) (dlq.Source, error) {
	return store.NewEventScan(f.EventFilter, dlq.OldestFirst, true)
}

// describe counts by walking: the set has no index that could count it, and short steps spare the server.
func (f eventChangeFilter) describe(ctx context.Context, app *cli.App, store *dlq.Store) (int64, error) {
	source, err := f.source(store)
	if err != nil {
		return 0, err
	}
	var total int64
	var first, last dlq.Target
	for {
		targets, err := source.Next(ctx, dlq.ChunkSize)
		if err != nil {
			return 0, err
		}
		if len(targets) == 0 {
			break
		}
		if total == 0 {
			first = targets[0]
		}
		last = targets[len(targets)-1]
		total += int64(len(targets))
	}
	if total > 0 {
		fmt.Fprintf(app.Err, "  %s, published from %s to %s, for example %s\n", counted(total, "event"),
			first.At.UTC().Format(time.RFC3339), last.At.UTC().Format(time.RFC3339), first.ID)
	}
	return total, nil
}
