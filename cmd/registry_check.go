package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

func newRegistryCheckCmd(app *cli.App) *cobra.Command {
	var pending bool
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a catalogue file, and with --pending try it on the events that wait",
		Long: `Check a catalogue file without a database: its keys and names, that its schemas
compile and refer only to files in its folder, that a broker takes its topics. All problems are
listed at once, each with its line; a keyword that JSON Schema does not know is a warning, because
it checks nothing.

With --pending every event that waits in the database is judged by the file, and what would die is
listed with its reason. Nothing is changed. The exit code is then 1 when events would die.`,
		Example: "  outboxctl registry check doorito.yaml\n  outboxctl registry check doorito.yaml --pending",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRegistryCheck(cmd.Context(), app, args[0], pending, output)
		},
	}
	cmd.Flags().BoolVar(&pending, "pending", false, "check every waiting event in the database")
	cli.AddListOutput[registry.Refusal](cmd, &output)
	return cmd
}

func runRegistryCheck(ctx context.Context, app *cli.App, file string, pending bool, output cli.Output) error {
	types, err := openAndWarn(app, file)
	if err != nil {
		return err
	}
	if !pending {
		fmt.Fprintf(app.Err, "%s is a valid catalogue: %s on %s\n", safetext.Line(file), words.Counted(int64(len(types.List())), "type"),
			words.Counted(int64(len(types.Topics())), "topic"))
		return nil
	}
	db, err := app.Reads(ctx)
	if err != nil {
		return err
	}
	trial, err := registry.Try(ctx, db, types, false)
	if err != nil {
		return err
	}
	if err := cli.WriteList(app, output, refusalView(), trial.Refused); err != nil {
		return err
	}
	var die int64
	for _, r := range trial.Refused {
		die += r.Waiting
	}
	fmt.Fprintf(app.Err, "%s waiting, %s of them would die\n", words.Counted(trial.Waiting, "event"), words.Count(die))
	if die > 0 {
		return cli.Silent(cli.ExitFailed)
	}
	return nil
}

// openAndWarn reads a catalogue file and prints what is most likely a mistake.
func openAndWarn(app *cli.App, file string) (*registry.Registry, error) {
	types, err := app.OpenCatalogue(file)
	if err != nil {
		return nil, err
	}
	for _, w := range types.Warnings() {
		fmt.Fprintf(app.Err, "warning: %s\n", safetext.Line(w))
	}
	return types, nil
}

func refusalView() cli.View[registry.Refusal] {
	return cli.View[registry.Refusal]{
		ID: func(r registry.Refusal) string { return r.Example },
		Columns: cli.Columns[registry.Refusal]("type=eventType, reason, waiting, published:wide, " +
			"problem:wrap, example"),
	}
}

func newRegistryDiffCmd(app *cli.App) *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Show what recording a catalogue file would change",
		Long: `Compare a catalogue file with the catalogue that the database recorded: the types
that would be added, changed (and in what), renamed or removed, with the number of events that wait.
Nothing is changed.`,
		Example: "  outboxctl registry diff doorito.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			types, err := openAndWarn(app, args[0])
			if err != nil {
				return err
			}
			db, err := app.Reads(cmd.Context())
			if err != nil {
				return err
			}
			diff, err := registry.Diff(cmd.Context(), db, types)
			if err != nil {
				return err
			}
			if err := cli.WriteList(app, output, typeChangeView(), diff.Changes); err != nil {
				return err
			}
			if diff.Limits {
				fmt.Fprintln(app.Err, "the destination takes other messages than the one it was recorded for")
			}
			fmt.Fprintf(app.Err, "%s, %d unchanged (recorded revision %d)\n", words.Counted(int64(len(diff.Changes)), "change"), diff.Unchanged, diff.Revision)
			return nil
		},
	}
	cli.AddListOutput[registry.TypeChange](cmd, &output)
	return cmd
}
