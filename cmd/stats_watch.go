package cmd

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/operate"
)

// history is how many looks a sparkline spans.
const history = 60

// watchStats shows reports until it is interrupted: on a terminal it redraws in place and adds sparklines, elsewhere it
// prints one report after the other. A look that fails is shown and tried again: watching through an outage is what
// the operator is there for.
func watchStats(ctx context.Context, opts *statsOptions, outbox *operate.Outbox, params operate.StatsParams) error {
	var backlog, rate []float64
	redraw := opts.app.OutTTY && opts.output.Form() == cli.FormatTable
	for {
		report, err := outbox.Stats(ctx, params)
		if ctx.Err() != nil {
			return nil
		}
		if redraw {
			fmt.Fprint(opts.app.Out, "\x1b[H\x1b[2J")
		}
		if err != nil {
			opts.app.Report(err)
		} else {
			backlog = remember(backlog, float64(report.Backlog))
			rate = remember(rate, report.Flow.DrainPerSecond)
			if err := opts.frame(report, redraw, backlog, rate); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(opts.interval):
		}
	}
}

func (opts *statsOptions) frame(report *operate.StatsResult, redraw bool, backlog, rate []float64) error {
	if !redraw {
		return opts.print(opts.app.Out, report)
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "outboxctl stats, every %s, %s\n\n", opts.interval, report.At.Local().Format(time.TimeOnly))
	fmt.Fprintf(&head, "%-11s %s\n%-11s %s\n\n", "backlog", sparkline(backlog), "out/s", sparkline(rate))
	if _, err := head.WriteTo(opts.app.Out); err != nil {
		return err
	}
	return opts.print(opts.app.Out, report)
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
