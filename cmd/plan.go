package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func newPlanCmd(app *cli.App) *cobra.Command {
	return group("plan", "List, run, watch and stop changes",
		`Every change to dead letters and events is a plan in the database: who wants it and why, and the rows it is made to. The
commands that change make one and run it; with --plan they only make it. A plan is run by one process and can be watched,
stopped and gone on with by any other: each step changes rows, leaves an audit row and marks the rows as done in one
transaction, so a run that was killed can be resumed and changes nothing twice. A plan that is not started expires
after seven days.`,
		newPlanListCmd(app), newPlanShowCmd(app), newPlanRunCmd(app), newPlanStopCmd(app), newPlanAbandonCmd(app))
}

func newPlanListCmd(app *cli.App) *cobra.Command {
	var p dlq.ListPlansParams
	var f listFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List plans, newest first: ready, running, done and interrupted",
		Example: "  outboxctl plan list\n  outboxctl plan list -o json | jq '.[] | select(.state == \"ready\")'",
	}
	check := func() error { p.Page = f.page; return p.Check() }
	cmd.RunE = f.list(app, check, func(ctx context.Context, cmd *cobra.Command, box *dlq.Outbox) error {
		return cli.WritePage(app, cmd, f.output, planView(), func(each func(dlq.Plan) error) (outbox.Paged, error) {
			return box.ListPlans(ctx, p, each)
		})
	})
	addListFlags[dlq.Plan](cmd, &f, "plan with this `id`")
	return cmd
}

// planID is how much of a plan's id tells it from all others: the millisecond in which it was made.
const planID = 13

func planView() cli.View[dlq.Plan] {
	return cli.View[dlq.Plan]{
		Shorten: func(ids []string) int { return max(planID, shortRuns(ids)) },
		Empty:   "no plans",
		Columns: []cli.Column[dlq.Plan]{
			{Head: "id", ID: true},
			{Head: "action"},
			{Head: "state", Style: func(p dlq.Plan) cli.Style { return stateStyle(p.State) }},
			{Head: "done"},
			{Head: "of", Field: "total"},
			{Head: "author"},
			{Head: "runner", From: 110},
			{Head: "made", Field: "createdAt", From: 120},
			{Head: "started", Field: "startedAt", Wide: true},
			{Head: "ended", Field: "endedAt", Wide: true},
			{Head: "why", Field: "endedWhy", From: 90, Rest: true},
			{Head: "note", Wide: true},
		},
	}
}

func newPlanStopCmd(app *cli.App) *cobra.Command {
	return newPlanActCmd(app, &cobra.Command{
		Use:   "stop ID",
		Short: "Stop a running plan after the rows it is at",
		Long: "Ask the process that runs a plan to stop, wherever it is. It finishes the rows it is at; " +
			"outboxctl plan run does the rest.",
		Example: "  outboxctl plan stop 01890a5d-ac96-774b-bcce-b302099a8057",
	}, (*dlq.Outbox).StopPlan)
}

func newPlanAbandonCmd(app *cli.App) *cobra.Command {
	return newPlanActCmd(app, &cobra.Command{
		Use:   "abandon ID",
		Short: "Give up a plan that was not started",
		Long: "Give up a plan that was not started, so that it cannot be started. Its set is deleted; " +
			"the plan stays listed.",
		Example: "  outboxctl plan abandon 01890a5d-ac96-774b-bcce-b302099a8057",
	}, (*dlq.Outbox).AbandonPlan)
}

// newPlanActCmd completes a command that does something to the plan it is given, and says nothing.
func newPlanActCmd(app *cli.App, cmd *cobra.Command,
	act func(box *dlq.Outbox, ctx context.Context, id, actor string) error) *cobra.Command {
	var audit cli.AuditFlags
	cmd.ValidArgsFunction = cli.OnlyFirst(cli.CompletePlans(app))
	cmd.RunE = withOutbox(app, func(ctx context.Context, box *dlq.Outbox, args []string) error {
		return act(box, ctx, args[0], app.Actor(audit))
	})
	cli.AddActorFlag(cmd, &audit)
	return cmd
}
