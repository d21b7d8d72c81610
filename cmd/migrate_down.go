package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

type migrateDownOptions struct {
	app *cli.App

	limits                  migrateLimits
	to                      int64
	toSet, all, dryRun, yes bool
	output                  cli.Output
}

func newMigrateDownCmd(app *cli.App) *cobra.Command {
	opts := &migrateDownOptions{app: app}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Revert the last migration, or all above a version; drops what they created",
		Long: `Revert the last migration, or with --to every one above a version, or --all. This
drops tables and columns together with their rows: it says which, and asks; in a production context
for the context's name. Off a terminal it needs --yes.`,
		Example: "  outboxctl migrate down --dry-run\n  outboxctl migrate down --to 8 --yes\n  outboxctl migrate down --all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.toSet = cmd.Flags().Changed("to")
			return runMigrateDown(cmd.Context(), opts)
		},
	}
	opts.limits.addFlags(cmd)
	cmd.Flags().Int64Var(&opts.to, "to", 0, "version that remains (0: none)")
	cmd.Flags().BoolVar(&opts.all, "all", false, "revert every migration")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "print the SQL that would run, and change nothing")
	cli.AddYesFlag(cmd, &opts.yes)
	cli.AddOutputFlags(cmd, &opts.output, cli.ObjectFormats()...)
	return cmd
}

func runMigrateDown(ctx context.Context, opts *migrateDownOptions) error {
	if opts.to < 0 {
		return fault.Usagef("--to %d: a version is not negative", opts.to)
	}
	if opts.all && opts.toSet {
		return fault.Usagef("--to and --all exclude each other")
	}
	o := opts.limits.options(opts.app)
	o.To = opts.to
	if opts.all || (opts.toSet && opts.to == 0) {
		o.To = migrate.AllSteps
	}
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	plan, err := migrate.Plan(ctx, pool, o, true)
	if err != nil {
		return migrateError(err)
	}
	if len(plan) > 0 {
		losses, err := migrate.Losses(ctx, pool, plan)
		if err != nil {
			return err
		}
		sayLosses(opts.app, plan, losses)
	}
	if opts.dryRun {
		return writePlan(opts.app, plan)
	}
	if len(plan) > 0 {
		question := "revert " + words.Counted(int64(len(plan)), "migration")
		if err := opts.app.Confirm(ctx, opts.yes, cli.Destroys, question); err != nil {
			return err
		}
	}
	res, err := migrate.Down(ctx, pool, o)
	if err != nil {
		return migrateError(err)
	}
	return writeMigrateResult(opts.app, opts.output, res, true)
}

// sayLosses tells on Err what data will be gone.
func sayLosses(app *cli.App, plan []migrate.Planned, losses []migrate.Loss) {
	fmt.Fprintf(app.Err, "this reverts %s", plan[0].Name)
	if len(plan) > 1 {
		fmt.Fprintf(app.Err, " to %s", plan[len(plan)-1].Name)
	}
	fmt.Fprintln(app.Err, ", and drops with its functions, views and indexes:")
	count := func(n int64, noun string) string {
		if n > migrate.MaxCounted {
			return "more than " + words.Counted(migrate.MaxCounted, noun)
		}
		return words.Counted(n, noun)
	}
	for _, l := range losses {
		text := "table " + l.Table + " with " + count(l.Rows, "row")
		if l.Column != "" {
			text = "column " + l.Table + "." + l.Column
		}
		if l.Unpublished > 0 {
			text += ", of them " + count(l.Unpublished, "unpublished event")
		}
		fmt.Fprintln(app.Err, "  "+safetext.Line(text))
	}
}
