package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// history is how many looks a sparkline spans.
const history = 60

// watchStats shows reports until it is interrupted, on a terminal with sparklines above.
func watchStats(ctx context.Context, opts *statsOptions, box *dlq.Outbox,
	params stats.Params) error {
	var backlog, rate []float64
	return opts.app.Watch(ctx, opts.watch, func(ctx context.Context) error {
		report, err := stats.Collect(ctx, box.DB, box.Registry, params)
		if err != nil {
			return err
		}
		backlog = remember(backlog, float64(report.Backlog))
		rate = remember(rate, report.Flow.DrainPerSecond)
		if opts.watch.On && opts.app.OutTTY && opts.output.Form() == cli.FormatTable {
			fmt.Fprintf(opts.app.Out, "outboxctl stats, every %s, %s\n\n", opts.watch.Every,
				report.At.Local().Format(time.TimeOnly))
			fmt.Fprintf(opts.app.Out, "%-11s %s\n%-11s %s\n\n", "backlog", sparkline(backlog), "out/s",
				sparkline(rate))
		}
		return opts.print(opts.app.Out, report)
	})
}

func remember(values []float64, v float64) []float64 {
	values = append(values, v)
	return values[max(0, len(values)-history):]
}

// sparkline draws values as bars between their zero and their greatest.
func sparkline(values []float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	line := make([]rune, len(values))
	for i, v := range values {
		step := 0
		if top > 0 {
			step = int(v / top * float64(len(bars)-1))
		}
		line[i] = bars[step]
	}
	return string(line)
}
