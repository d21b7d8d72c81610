package cmd

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
)

type dlqExportOptions struct {
	app *cli.App

	ids    []string
	filter dlqFilterFlags
}

func newDLQExportCmd(app *cli.App, run func(context.Context, *dlqExportOptions) error) *cobra.Command {
	opts := &dlqExportOptions{app: app}
	cmd := &cobra.Command{
		Use:   "export [ID... | -]",
		Short: "Write dead letters as JSON lines that emit can read back after editing",
		Long: `Write dead letters as JSON lines, one event each, in the form outboxctl emit --stdin reads. Correct the lines and emit
them: the corrected event is a new event that names the old one in its header corrects_event_id. Emitting a file twice
makes no second event. Then discard the old dead letters.

Without ids or filters every open dead letter is exported, oldest first.`,
		Example: `  outboxctl dlq export --reason invalid_payload --until 2026-03-02T10:00:00Z > events.jsonl
  outboxctl emit --stdin < events.jsonl
  outboxctl dlq discard --reason invalid_payload --until 2026-03-02T10:00:00Z --note 'corrected and emitted anew'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ids = args
			return run(cmd.Context(), opts)
		},
		ValidArgsFunction: cli.CompleteDLQIDs(app, dlq.StateOpen),
	}
	addDLQFilterFlags(app, cmd, &opts.filter)
	addStateFlag(cmd, &opts.filter)
	return cmd
}

func runDLQExport(ctx context.Context, opts *dlqExportOptions) error {
	// What is exported is meant to be emitted.
	if err := opts.app.RefuseEmpty(filterFlags()...); err != nil {
		return err
	}
	ids, err := readIDs(opts.app.In, opts.ids)
	if err != nil {
		return err
	}
	filter, err := opts.filter.filter(opts.app.Now())
	if err != nil {
		return err
	}
	if len(opts.ids) > 0 && filter.Narrows() {
		return fault.Usagef("give ids or filters, not both")
	}
	store, err := opts.app.Store(ctx)
	if err != nil {
		return err
	}
	var source dlq.Source = store.NamedEntries(ids, dlq.StateOpen)
	if len(opts.ids) == 0 {
		now, err := store.Now(ctx)
		if err != nil {
			return operate.StoreError(err)
		}
		if filter, err = opts.filter.filter(now); err != nil {
			return err
		}
		if source, err = store.NewScan(filter, dlq.OldestFirst); err != nil {
			return err
		}
	}
	written, missing := 0, 0
	for {
		targets, err := source.Next(ctx, exportPage)
		if err != nil {
			return operate.StoreError(err)
		}
		if len(targets) == 0 {
			break
		}
		lines, err := store.Export(ctx, targets)
		if err != nil {
			return operate.StoreError(err)
		}
		for _, line := range lines {
			if err := cli.EncodeJSON(opts.app.Out, line, ""); err != nil {
				return err
			}
		}
		written += len(lines)
		missing += len(targets) - len(lines)
	}
	fmt.Fprintf(opts.app.Err, "exported %s dead letters\n", humanize.Comma(int64(written)))
	switch {
	case missing > 0 && written > 0:
		return fault.Partialf("%s of the ids have no dead letter", humanize.Comma(int64(missing)))
	case missing > 0:
		return fault.NotFoundf("no dead letter has that id")
	default:
		return nil
	}
}

// exportPage bounds how many payloads are in memory.
const exportPage = 100
