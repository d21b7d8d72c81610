package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func newPlanCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "List, run, watch and stop changes",
		Long: `Every change to dead letters and events is a plan in the database: who wants it and why, and the rows it is made to. The
commands that change make one and run it; with --plan they only make it. A plan is run by one process and can be watched,
stopped and gone on with by any other: each step changes rows, leaves an audit row and marks the rows as done in one
transaction, so a run that was killed goes on where it was and changes nothing twice. A plan that is not started expires
after seven days.`,
	}
	cmd.AddCommand(newPlanListCmd(app), newPlanShowCmd(app), newPlanRunCmd(app), newPlanStopCmd(app), newPlanAbandonCmd(app))
	return cmd
}

func newPlanListCmd(app *cli.App) *cobra.Command {
	var p dlq.ListPlansParams
	var watch cli.Watch
	var output cli.Output
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List plans, newest first: ready, running, done and interrupted",
		Example: "  outboxctl plan list\n  outboxctl plan list -o json | jq '.[] | select(.state == \"ready\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.Check(); err != nil {
				return err
			}
			return app.Watch(cmd.Context(), watch, func(ctx context.Context) error {
				box, err := app.Outbox(ctx)
				if err != nil {
					return err
				}
				return cli.WritePage(app, cmd, output, planView(), func(each func(dlq.Plan) error) (outbox.Paged, error) {
					return box.ListPlans(ctx, p, each)
				})
			})
		},
	}
	cli.AddPageFlags(cmd, &p.Page, "plan with this `id`")
	cli.AddWatchFlags(cmd, &watch)
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	cli.KnowFields[dlq.Plan](&output)
	return cmd
}

// planID is how much of a plan's id tells it from all others: the millisecond in which it was made.
const planID = 13

func planView() cli.View[dlq.Plan] {
	return cli.View[dlq.Plan]{
		ID:      func(p dlq.Plan) string { return p.ID },
		IDs:     func(p dlq.Plan) []string { return []string{p.ID} },
		Shorten: func(ids []string) int { return max(planID, shortRuns(ids)) },
		Empty:   "no plans",
		Columns: []cli.Column[dlq.Plan]{
			{Head: "id", Whole: true, Cell: func(p dlq.Plan, s *cli.CellStyle) string { return s.ID(p.ID) }},
			{Head: "action", Cell: func(p dlq.Plan, _ *cli.CellStyle) string { return string(p.Action) }},
			{Head: "state", Cell: func(p dlq.Plan, _ *cli.CellStyle) string { return p.State }, Style: func(p dlq.Plan) cli.Style { return stateStyle(p.State) }},
			{Head: "done", Cell: func(p dlq.Plan, s *cli.CellStyle) string { return s.Count(p.Done) }},
			{Head: "of", Field: "total", Cell: func(p dlq.Plan, s *cli.CellStyle) string { return s.Count(p.Total) }},
			{Head: "author", Cell: func(p dlq.Plan, _ *cli.CellStyle) string { return p.Author }},
			{Head: "runner", From: 110, Cell: func(p dlq.Plan, _ *cli.CellStyle) string { return p.Runner }},
			{Head: "made", Field: "createdAt", From: 120, Cell: func(p dlq.Plan, s *cli.CellStyle) string { return s.Time(p.CreatedAt) }},
			{Head: "started", Field: "startedAt", Wide: true, Cell: func(p dlq.Plan, s *cli.CellStyle) string { return s.TimePtr(p.StartedAt) }},
			{Head: "ended", Field: "endedAt", Wide: true, Cell: func(p dlq.Plan, s *cli.CellStyle) string { return s.TimePtr(p.EndedAt) }},
			{Head: "why", Field: "endedWhy", From: 90, Rest: true, Cell: func(p dlq.Plan, _ *cli.CellStyle) string { return p.EndedWhy }},
			{Head: "note", Wide: true, Cell: func(p dlq.Plan, _ *cli.CellStyle) string { return p.Note }},
		},
	}
}

func newPlanStopCmd(app *cli.App) *cobra.Command {
	var audit cli.AuditFlags
	cmd := &cobra.Command{
		Use:               "stop ID",
		Short:             "Stop a running plan after the rows it is at",
		Long:              "Ask the process that runs a plan to stop, wherever it is. It finishes the rows it is at; outboxctl plan run does the rest.",
		Example:           "  outboxctl plan stop 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompletePlans(app)),
		RunE: func(cmd *cobra.Command, args []string) error {
			box, err := app.Outbox(cmd.Context())
			if err != nil {
				return err
			}
			return box.StopPlan(cmd.Context(), args[0], app.Actor(audit))
		},
	}
	cli.AddActorFlag(cmd, &audit)
	return cmd
}

func newPlanAbandonCmd(app *cli.App) *cobra.Command {
	var audit cli.AuditFlags
	cmd := &cobra.Command{
		Use:               "abandon ID",
		Short:             "Give up a plan that was not started",
		Long:              "Give up a plan that was not started, so that it cannot be started. Its set is deleted; the plan stays listed.",
		Example:           "  outboxctl plan abandon 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompletePlans(app)),
		RunE: func(cmd *cobra.Command, args []string) error {
			box, err := app.Outbox(cmd.Context())
			if err != nil {
				return err
			}
			return box.AbandonPlan(cmd.Context(), args[0], app.Actor(audit))
		},
	}
	cli.AddActorFlag(cmd, &audit)
	return cmd
}
