package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

func newPlanRunCmd(app *cli.App) *cobra.Command {
	opts := &changeOptions{app: app}
	cmd := &cobra.Command{
		Use:   "run ID",
		Short: "Run a plan, or what is left of it",
		Long: `Run what is left of a plan: all of it when it was not started yet, the rest when its
run was stopped or its process is gone. One process at a time runs a plan. Ctrl-C ends after the
rows it is at.

--ramp, --abort-if-dead, --watch-for, --wait and --force work as in outboxctl dlq replay.`,
		Example:           "  outboxctl plan run 01890a5d-ac96-774b-bcce-b302099a8057 --yes --rate 200/s --abort-if-dead 5%",
		ValidArgsFunction: cli.OnlyFirst(cli.CompletePlans(app)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPlanRun(cmd.Context(), opts, args[0])
		},
	}
	cli.AddYesFlag(cmd, &opts.yes)
	cmd.Flags().BoolVar(&opts.force, "force", false, "replay also what would fail again unchanged")
	addRunFlags(cmd, opts)
	addRampFlags(cmd, opts)
	addWaitFlags(cmd, opts)
	cli.AddActorFlag(cmd, &opts.audit)
	return cmd
}

func runPlanRun(ctx context.Context, opts *changeOptions, id string) error {
	app := opts.app
	box, err := app.LongOutbox(ctx)
	if err != nil {
		return err
	}
	plan, err := box.Plan(ctx, id)
	if err != nil {
		return err
	}
	opts.action = plan.Action
	left := plan.Total - plan.Done
	fmt.Fprintf(app.Err, "plan %s by %s of %s: %s of %s left\n", plan.ID, safetext.Line(plan.Author), plan.CreatedAt.UTC().Format(time.RFC3339),
		words.Count(left), words.Counted(plan.Total, "row"))
	if plan.Action == dlq.Replay && plan.StartedAt == nil && !opts.force {
		if err := dlq.RefuseHopeless(plan.Plan); err != nil {
			return err
		}
	}
	if err := app.Confirm(ctx, opts.yes, weight(plan.Action, left),
		fmt.Sprintf("%s %s", plan.Action.Verb(), words.Counted(left, "row"))); err != nil {
		return err
	}
	defer cli.SurviveClosedPipe()()
	rows, err := opts.newRows(ctx, box, plan.Action.Success(), plan.Action.Success(), left)
	if err != nil {
		return err
	}
	return opts.runPlan(ctx, box, plan.Plan, nil, rows)
}
