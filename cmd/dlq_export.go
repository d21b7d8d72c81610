package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

func newDLQExportCmd(app *cli.App) *cobra.Command {
	filter := dlq.Query{State: dlq.StateOpen}
	cmd := &cobra.Command{
		Use:   "export [ID... | -]",
		Short: "Write dead letters as JSON lines that emit can read back after editing",
		Long: `Write dead letters as JSON lines, one event each, in the form outboxctl emit --stdin
reads. Correct the lines and emit them: the corrected event is a new event that names the old one in
its header corrects. Emitting a file twice makes no second event. Then discard the old dead letters.

Without ids or filters every open dead letter is exported, oldest first.`,
		Example: `  outboxctl dlq export --reason invalid_payload --until 2026-03-02T10:00:00Z > events.jsonl
  outboxctl emit --stdin < events.jsonl
  outboxctl dlq discard --reason invalid_payload --until 2026-03-02T10:00:00Z --note 'corrected and emitted again'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDLQExport(cmd.Context(), app, args, &filter)
		},
		ValidArgsFunction: cli.CompleteDLQIDs(app, dlq.StateOpen),
	}
	addFilterFlags(cmd, &filter, "that died")
	return cmd
}

func runDLQExport(ctx context.Context, app *cli.App, args []string, flags *dlq.Query) error {
	// What is exported is meant to be emitted.
	if err := app.RefuseEmpty(flags.FieldNames()...); err != nil {
		return err
	}
	ids, err := cli.ReadIDs(app.In, args)
	if err != nil {
		return err
	}
	filter, err := flags.Filter(app.Now())
	if err != nil {
		return err
	}
	if len(args) > 0 && filter.Narrows() {
		return fault.Usagef("give ids or filters, not both")
	}
	box, err := app.LongOutbox(ctx)
	if err != nil {
		return err
	}
	params := dlq.ExportParams{IDs: ids}
	if len(args) == 0 {
		if filter, err = filterBy(ctx, app, box, flags); err != nil {
			return err
		}
		params.Filter = &filter
	}
	result, err := box.Export(ctx, params, func(e dlq.Export) error {
		return cli.EncodeJSON(app.Out, e, "")
	})
	if kind, _ := fault.KindOf(err); err == nil || kind == fault.Partial || kind == fault.NotFound {
		fmt.Fprintf(app.Err, "exported %s\n", words.Counted(result.Written, "dead letter"))
	}
	return err
}
