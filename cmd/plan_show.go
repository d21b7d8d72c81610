package cmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/words"
)

func newPlanShowCmd(app *cli.App) *cobra.Command {
	return showing(app, &cobra.Command{
		Use:               "show ID",
		Short:             "Show a plan: what it holds, how far its run has come, what was not changed",
		Example:           "  outboxctl plan show 01890a5d-ac96-774b-bcce-b302099a8057",
		ValidArgsFunction: cli.OnlyFirst(cli.CompletePlans(app)),
	}, boxed(app, func(ctx context.Context, box *dlq.Outbox, args []string) (dlq.PlanDetail, error) {
		return box.Plan(ctx, args[0])
	}), func(w io.Writer, p dlq.PlanDetail) error { return sayPlan(app.Page(w), p) })
}

func sayPlan(page *cli.Page, p dlq.PlanDetail) error {
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
	page.Field("left out", countsText(p.LeftOut))
	if p.StartedAt != nil {
		page.Title("run")
		page.Field("runner", p.Runner)
		page.Field("started", page.Time(p.StartedAt))
		page.Field("ended", page.Time(p.EndedAt))
		page.Field("why", p.EndedWhy)
		page.Field("done", words.Count(p.Done)+" of "+words.Count(p.Total))
		page.Field("outcomes", countsText(p.Counts))
	}
	if len(p.Failed) > 0 {
		page.Title("not changed")
		for _, f := range p.Failed {
			page.Line(f.ID + " " + dlq.Explain(f.Outcome))
		}
	}
	return page.Close()
}

// countsText writes counts by outcome in words.
func countsText(counts map[string]int64) string {
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, words.Count(counts[outcome])+" "+dlq.Explain(outcome))
	}
	return strings.Join(parts, ", ")
}
