package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
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
		return cli.WritePage(app, cmd, f.output, cli.View[dlq.Plan]{
			Empty: "no plans",
			Columns: cli.Columns[dlq.Plan]("id:id, action, state, done, of=total, author, "+
				"runner:110, made=createdAt:120, started=startedAt:wide, ended=endedAt:wide, "+
				"why=endedWhy:90:rest, note:wide").
				Style("state", func(p dlq.Plan) cli.Style { return stateStyle(p.State) }),
		}, func(each func(dlq.Plan) error) (outbox.Paged, error) {
			return box.ListPlans(ctx, p, each)
		})
	})
	addListFlags(cmd, &f, "plan with this `id`")
	return cmd
}

func newPlanStopCmd(app *cli.App) *cobra.Command {
	return newPlanActCmd(app, &cobra.Command{
		Use:   "stop ID",
		Args:  cobra.ExactArgs(1),
		Short: "Stop a running plan after the rows it is at",
		Long: "Ask the process that runs a plan to stop, wherever it is. It finishes the rows it is at; " +
			"outboxctl plan run does the rest.",
		Example: "  outboxctl plan stop 01890a5d-ac96-774b-bcce-b302099a8057",
	}, (*dlq.Outbox).StopPlan)
}

func newPlanAbandonCmd(app *cli.App) *cobra.Command {
	return newPlanActCmd(app, &cobra.Command{
		Use:   "abandon ID",
		Args:  cobra.ExactArgs(1),
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

func newPlanRunCmd(app *cli.App) *cobra.Command {
	opts := &changeOptions{app: app}
	cmd := &cobra.Command{
		Use:   "run ID",
		Args:  cobra.ExactArgs(1),
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
	addForceFlag(cmd, opts)
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
	question := plan.Action.Verb() + " " + words.Counted(left, "row")
	if err := app.Confirm(ctx, opts.yes, weight(plan.Action, left), question); err != nil {
		return err
	}
	defer cli.SurviveClosedPipe()()
	rows := opts.newRows(plan.Action.Success(), plan.Action.Success(), left)
	return opts.runPlan(ctx, box, plan.Plan, nil, rows)
}

func newPlanShowCmd(app *cli.App) *cobra.Command {
	return showing(app, &cobra.Command{
		Use:               "show ID",
		Args:              cobra.ExactArgs(1),
		Short:             "Show a plan: what it holds, how far its run has come, what was not changed",
		Example:           "  outboxctl plan show 01890a5d-ac96-774b-bcce-b302099a8057",
		ValidArgsFunction: cli.OnlyFirst(cli.CompletePlans(app)),
	}, from(app.Outbox,
		func(ctx context.Context, box *dlq.Outbox, args []string) (dlq.PlanDetail, error) {
			return box.Plan(ctx, args[0])
		}), sayPlan)
}

func sayPlan(page *cli.Page, p dlq.PlanDetail) {
	page.Title(fmt.Sprintf("%s, %s", p.Action, p.State))
	page.Field("plan", p.ID)
	page.Field("database", p.Database.Place())
	page.Field("author", p.Author)
	page.Field("note", p.Note)
	page.Field("made", page.Time(&p.CreatedAt))
	if p.StartedAt == nil {
		page.Field("expires", page.Time(&p.ExpiresAt))
	}
	page.Field("rows", words.Count(p.Total))
	page.Field("left out", strings.Join(countTexts(p.LeftOut), ", "))
	if p.StartedAt != nil {
		page.Title("run")
		page.Field("runner", p.Runner)
		page.Field("started", page.Time(p.StartedAt))
		page.Field("ended", page.Time(p.EndedAt))
		page.Field("why", p.EndedWhy)
		page.Field("done", words.Count(p.Done)+" of "+words.Count(p.Total))
		page.Field("outcomes", strings.Join(countTexts(p.Counts), ", "))
	}
	if len(p.Failed) > 0 {
		page.Title("not changed")
		for _, f := range p.Failed {
			page.Line(f.ID + " " + dlq.Explain(f.Outcome))
		}
	}
}

// countTexts writes counts by outcome in words.
func countTexts(counts map[string]int64) (texts []string) {
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, words.Count(counts[outcome])+" "+dlq.Explain(outcome))
	}
	return texts
}
