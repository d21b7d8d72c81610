package cmd

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// contextStats is one context as stats shows it among several.
type contextStats struct {
	Context string `json:"context"`
	// Stats is null when Error tells why there is none.
	Stats *stats.Report `json:"stats"`
	Error string        `json:"error,omitempty"`
}

// statsOfContexts shows a row for each context; one that does not answer is a row with its error.
func statsOfContexts(ctx context.Context, opts *statsOptions, names []string) error {
	if opts.by != "" {
		return fault.Usagef("--by needs a single context")
	}
	reports, errs := cli.InContexts(ctx, opts.app, names, cli.ContextsAtOnce, statsOf)
	rows := make([]contextStats, len(names))
	for i, name := range names {
		rows[i] = contextStats{Context: name, Stats: reports[i]}
		if errs[i] != nil {
			rows[i].Stats, rows[i].Error = nil, safetext.Redact(errs[i].Error())
		}
	}
	if err := cli.WriteList(opts.app, opts.output, contextStatsView(), rows); err != nil {
		return err
	}
	return opts.app.ReportContexts(names, errs)
}

func statsOf(ctx context.Context, app *cli.App) (*stats.Report, error) {
	cfg, err := app.Config("database.url")
	if err != nil {
		return nil, err
	}
	box, err := app.Outbox(ctx)
	if err != nil {
		return nil, err
	}
	return stats.Collect(ctx, box.DB, box.Registry,
		stats.Params{MaxAttempts: cfg.Publish.MaxAttempts})
}

func contextStatsView() cli.View[contextStats] {
	figure := func(head string, text func(*stats.Report, *cli.CellStyle) string) cli.Column[contextStats] {
		return cli.Column[contextStats]{Head: head, Field: "stats", Cell: func(c contextStats, s *cli.CellStyle) string {
			if c.Stats == nil {
				return ""
			}
			return text(c.Stats, s)
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
