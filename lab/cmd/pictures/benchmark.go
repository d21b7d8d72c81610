package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	engine "github.com/outboxctl/outboxctl/internal/bench"
	modes "github.com/outboxctl/outboxctl/lab/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// drawBenchmark measures how fast a backlog gets to the broker with outboxctl, with a River worker
// that publishes one event per job, and with a row-by-row loop: in turns, on private PostgreSQL
// servers with the settings PostgreSQL ships with and on the same Pub/Sub fake. The better of their
// rounds counts.
func drawBenchmark(ctx context.Context, program string, events, rounds int, out string) {
	contenders := []*contender{
		{name: "outboxctl publish", measure: func() (float64, error) {
			return bench(ctx, program,
				"drain", events)
		}},
		{name: "River worker", measure: func() (float64, error) { return river(ctx, events) }},
		{name: "row by row", measure: func() (float64, error) { return rowByRow(ctx, events/10) }},
	}
	for round := range rounds {
		for _, c := range contenders {
			rate, err := c.measure()
			if err != nil {
				rig.Check(fmt.Errorf("measure %s: %w", c.name, err))
			}
			fmt.Fprintf(os.Stderr, "round %d  %-18s %8.0f events/s\n", round+1, c.name, rate)
			c.best = max(c.best, rate)
		}
	}
	rig.Check(os.WriteFile(out, draw(contenders, events), 0o644))
}

// A contender is one way of publishing a backlog.
type contender struct {
	name    string
	measure func() (eventsPerSecond float64, err error)
	best    float64
}

// rowByRow measures the loop most people write first.
func rowByRow(ctx context.Context, events int) (float64, error) {
	report, err := engine.Run(ctx, engine.Params{Mode: modes.RowByRow(), Events: events})
	if err != nil {
		return 0, err
	}
	return report.EventsPerSecond, nil
}

// bench lets the program measure itself in a process of its own.
func bench(ctx context.Context, program, mode string, events int) (float64, error) {
	measured := exec.CommandContext(ctx, program, "bench", "--mode", mode, "--events", strconv.Itoa(events), "-o", "json") //nolint:gosec // the caller names it
	measured.Stderr = os.Stderr
	printed, err := measured.Output()
	if err != nil {
		return 0, err
	}
	var report struct {
		EventsPerSecond float64 `json:"eventsPerSecond"`
	}
	err = json.Unmarshal(printed, &report)
	return report.EventsPerSecond, err
}
