package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

type runResumeOptions struct {
	changeOptions

	id string
}

func newRunResumeCmd(app *cli.App) *cobra.Command {
	opts := &runResumeOptions{changeOptions: changeOptions{app: app}}
	cmd := &cobra.Command{
		Use:   "resume ID",
		Short: "Run a plan, or what is left of it",
		Long: `Run what is left of a plan: all of it when it was not started yet, the rest when its run was stopped or its process is gone. One
process at a time runs a plan. Ctrl-C ends after the rows it is at.

--ramp, --abort-if-dead and --watch-for work as in outboxctl dlq replay.`,
		Example:           "  outboxctl run resume 01890a5d-ac96-774b-bcce-b302099a8057 --yes --rate 200/s --abort-if-dead 5%",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteRuns(app)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.id = args[0]
			return runResume(cmd.Context(), opts)
		},
	}
	cli.AddYesFlag(cmd, &opts.yes)
	cmd.Flags().Var(&opts.rate, "rate", "change at most so many rows per second, such as 200/s")
	addRampFlags(cmd, &opts.changeOptions)
	cli.AddActorFlag(cmd, &opts.audit)
	return cmd
}

func runResume(ctx context.Context, opts *runResumeOptions) error {
	app := opts.app
	box, err := app.LongOutbox(ctx)
	if err != nil {
		return err
	}
	plan, err := box.Plan(ctx, opts.id)
	if err != nil {
		return err
	}
	opts.action = plan.Action
	fmt.Fprintf(app.Err, "plan %s by %s of %s: %s of %s left\n", plan.ID, safetext.Line(plan.Author), plan.CreatedAt.UTC().Format(time.RFC3339),
		words.Count(plan.Total-plan.Done), words.Counted(plan.Total, "row"))
	question := fmt.Sprintf("%s %s", plan.Action.Verb(), words.Counted(plan.Total-plan.Done, "row"))
	if err := app.Confirm(ctx, opts.yes, plan.Total-plan.Done, question); err != nil {
		return err
	}
	bar := app.NewProgress(plan.Action.Success(), plan.Total-plan.Done)
	result, err := box.RunPlan(ctx, operate.RunPlanParams{
		ID: plan.ID, Runner: app.Actor(opts.audit), Rate: float64(opts.rate), Watch: opts.watch(),
		OnOutcomes: func(outcomes []dlq.Outcome) error { bar.Add(int64(len(outcomes))); return nil },
	})
	bar.Done()
	if result.Total() > 0 {
		opts.summarise(result.RunResult)
	}
	if result.Interrupted { // of which the exit code alone tells
		fmt.Fprintf(app.Err, "interrupted after %s; go on with: outboxctl run resume %s\n", words.Counted(result.Total(), "row"), plan.ID)
	} else if err != nil && result.State != "" {
		err = fault.Hint(err, "go on with: outboxctl run resume %s", plan.ID)
	}
	return err
}
