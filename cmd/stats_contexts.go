package cmd

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

// contextStats is one context as stats --all-contexts shows it.
type contextStats struct {
	Context string `json:"context"`
	// Stats is null when Error tells why there is none.
	Stats *stats.Report `json:"stats"`
	Error string        `json:"error,omitempty"`
}

// statsOfContexts asks one context after the other; one that does not answer is a row with its
// error.
func statsOfContexts(ctx context.Context, opts *statsOptions) error {
	app := opts.app
	if _, given := app.Flag(cli.FlagContext); given || opts.by != "" {
		return fault.Usagef("--all-contexts goes with neither --context nor --by")
	}
	cfg, err := app.Config()
	if err != nil {
		return err
	}
	if len(cfg.Contexts) == 0 {
		return fault.Preconditionf("the configuration file has no contexts")
	}
	rows := make([]contextStats, len(cfg.Contexts))
	failed := 0
	for i, c := range cfg.Contexts {
		rows[i].Context = c.Name
		if rows[i].Stats, err = statsOf(ctx,
			app.Under(map[string]string{"OUTBOXCTL_CONTEXT": c.Name})); err != nil {
			rows[i].Error = err.Error()
			failed++
		}
	}
	if err := cli.WriteList(app, opts.output, contextStatsView(), rows); err != nil {
		return err
	}
	switch failed {
	case 0:
		return nil
	case len(rows):
		return fault.Preconditionf("no context answers")
	default:
		return fault.Partialf("%s of %s do not answer", words.Count(int64(failed)),
			words.Counted(int64(len(rows)), "context"))
	}
}

func statsOf(ctx context.Context, app *cli.App) (*stats.Report, error) {
	defer func() { _ = app.Close() }() // what was read is read
	cfg, err := app.Config("database.url")
	if err != nil {
		return nil, err
	}
	box, err := app.Outbox(ctx)
	if err != nil {
		return nil, err
	}
	report, err := stats.Collect(ctx, box.DB, box.Registry,
		stats.Params{MaxAttempts: cfg.Publish.MaxAttempts})
	return report, fault.Database(err)
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
