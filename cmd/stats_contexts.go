package cmd

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// contextStats is one context as stats shows it among several.
type contextStats = cli.Found[*stats.Report]

// statsOfContexts shows a row for each context; one that does not answer is a row with its error.
func statsOfContexts(ctx context.Context, opts *statsOptions, names []string) error {
	if opts.by != "" {
		return fault.Usagef("--by needs a single context")
	}
	found := cli.InContexts(ctx, opts.app, names, cli.ContextsAtOnce, statsOf)
	if err := cli.WriteList(opts.app, opts.output, contextStatsView(), found); err != nil {
		return err
	}
	return cli.ReportContexts(opts.app, found)
}

func statsOf(ctx context.Context, app *cli.App) (*stats.Report, error) {
	cfg, box, err := configured(ctx, app)
	if err != nil {
		return nil, err
	}
	return stats.Collect(ctx, box.DB, box.Registry,
		stats.Params{MaxAttempts: cfg.Publish.MaxAttempts})
}

func contextStatsView() cli.View[contextStats] {
	figure := func(head string, text func(*stats.Report, *cli.CellStyle) string) cli.Column[contextStats] {
		return cli.Column[contextStats]{Head: head, Field: "result", Cell: func(c contextStats, s *cli.CellStyle) string {
			if c.Result == nil {
				return ""
			}
			return text(c.Result, s)
		}}
	}
	return cli.View[contextStats]{
		ID: func(c contextStats) string { return c.Context },
		Columns: []cli.Column[contextStats]{
			{Head: "context"},
			figure("backlog", func(r *stats.Report, s *cli.CellStyle) string { return s.Count(r.Backlog) }),
			figure("oldest", func(r *stats.Report, _ *cli.CellStyle) string {
				return cli.Age(time.Duration(r.OldestAgeSeconds * float64(time.Second)))
			}),
			figure("dlq-open", func(r *stats.Report, s *cli.CellStyle) string { return s.Count(r.DLQ.Open) }),
			figure("flow", func(r *stats.Report, _ *cli.CellStyle) string { return r.Flow.State }),
			{Head: "error", Rest: true},
		},
	}
}
