package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func newRunCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "List, watch, resume and stop changes that were frozen in the database",
		Long: `A change that was frozen with --freeze is a plan in the database. Its run is begun by one process and can be watched, stopped
and resumed by any other: each step changes rows, leaves an audit row and marks the rows as done in one transaction, so
a run that was killed goes on where it was and changes nothing twice. A plan that is not started expires after seven days.`,
	}
	cmd.AddCommand(newRunListCmd(app), newRunShowCmd(app), newRunResumeCmd(app), newRunStopCmd(app), newRunAbandonCmd(app))
	return cmd
}

func newRunListCmd(app *cli.App) *cobra.Command {
	var p operate.ListPlansParams
	var all bool
	var watch cli.Watch
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first: in progress, ended and interrupted",
		Long: `List the runs of frozen changes, newest first. --all lists the plans that were not started too. A change that was made at
once has no plan; outboxctl dlq audit shows it.`,
		Example: "  outboxctl run list\n  outboxctl run list --all -o json | jq '.[] | select(.state == \"ready\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.Check(); err != nil {
				return err
			}
			p.Started = !all
			return app.Watch(cmd.Context(), watch, func(ctx context.Context) error {
				box, err := app.Outbox(ctx)
				if err != nil {
					return err
				}
				return cli.WritePage(app, cmd, output, runView(), func(each func(dlq.Frozen) error) (outbox.Paged, error) {
					return box.ListPlans(ctx, p, each)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "plans that were not started too")
	cli.AddPageFlags(cmd, &p.Page, "plan with this `id`")
	cli.AddWatchFlags(cmd, &watch)
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	cli.KnowFields[dlq.Frozen](&output)
	return cmd
}

// planID is how much of a plan's id tells it from all others: the millisecond in which it was made.
const planID = 13

func runView() cli.View[dlq.Frozen] {
	return cli.View[dlq.Frozen]{
		ID:      func(p dlq.Frozen) string { return p.ID },
		IDs:     func(p dlq.Frozen) []string { return []string{p.ID} },
		Shorten: func(ids []string) int { return max(planID, shortRuns(ids)) },
		Empty:   "no runs; outboxctl run list --all lists the plans that were not started",
		Columns: []cli.Column[dlq.Frozen]{
			{Head: "id", Whole: true, Cell: func(p dlq.Frozen, s *cli.CellStyle) string { return s.ID(p.ID) }},
			{Head: "action", Cell: func(p dlq.Frozen, _ *cli.CellStyle) string { return string(p.Action) }},
			{Head: "state", Cell: func(p dlq.Frozen, _ *cli.CellStyle) string { return p.State }, Style: func(p dlq.Frozen) cli.Style { return stateStyle(p.State) }},
			{Head: "done", Cell: func(p dlq.Frozen, s *cli.CellStyle) string { return s.Count(p.Done) }},
			{Head: "of", Field: "total", Cell: func(p dlq.Frozen, s *cli.CellStyle) string { return s.Count(p.Total) }},
			{Head: "author", Cell: func(p dlq.Frozen, _ *cli.CellStyle) string { return p.Author }},
			{Head: "runner", From: 110, Cell: func(p dlq.Frozen, _ *cli.CellStyle) string { return p.Runner }},
			{Head: "made", Field: "createdAt", From: 120, Cell: func(p dlq.Frozen, s *cli.CellStyle) string { return s.Time(p.CreatedAt) }},
			{Head: "started", Field: "startedAt", Wide: true, Cell: func(p dlq.Frozen, s *cli.CellStyle) string { return s.TimePtr(p.StartedAt) }},
			{Head: "ended", Field: "endedAt", Wide: true, Cell: func(p dlq.Frozen, s *cli.CellStyle) string { return s.TimePtr(p.EndedAt) }},
			{Head: "why", Field: "endedWhy", From: 90, Rest: true, Cell: func(p dlq.Frozen, _ *cli.CellStyle) string { return p.EndedWhy }},
			{Head: "note", Wide: true, Cell: func(p dlq.Frozen, _ *cli.CellStyle) string { return p.Note }},
		},
	}
}

func newRunStopCmd(app *cli.App) *cobra.Command {
	var audit cli.AuditFlags
	cmd := &cobra.Command{
		Use:               "stop ID",
		Short:             "Ask a run to stop after the rows it is at",
		Long:              "Ask the process that runs a plan to stop, wherever it is. It finishes the rows it is at; outboxctl run resume does the rest.",
		Example:           "  outboxctl run stop 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteRuns(app)),
		RunE: func(cmd *cobra.Command, args []string) error {
			box, err := app.Outbox(cmd.Context())
			if err != nil {
				return err
			}
			return box.StopRun(cmd.Context(), args[0], app.Actor(audit))
		},
	}
	cli.AddActorFlag(cmd, &audit)
	return cmd
}

func newRunAbandonCmd(app *cli.App) *cobra.Command {
	var audit cli.AuditFlags
	cmd := &cobra.Command{
		Use:               "abandon ID",
		Short:             "Give up a plan that was not started",
		Long:              "Give up a plan that was not started, so that it cannot be started. Its set is deleted; the plan stays listed.",
		Example:           "  outboxctl run abandon 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteRuns(app)),
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
