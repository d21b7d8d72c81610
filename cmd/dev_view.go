package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

const (
	devViewEvery = time.Second
	devViewDead  = 5 // dead letters it shows
	// devViewSample is how long the commands it shows name the same dead letter.
	devViewSample = time.Minute
	devLogFile    = "dev.log"
)

// A devView is what dev shows on a terminal instead of its logs.
type devView struct {
	opts     *devOptions
	terminal cli.Streams
	runs     []string // what runs, by name
	log      string   // where the logs are
	backlog  cli.Trend
	departed cli.Trend
	sample   dlq.Entry // the dead letter that its commands name: one that changed each second could not be typed
	sampled  time.Time
}

// live reports whether dev draws its view.
func (o *devOptions) live() bool {
	return o.app.OutTTY && o.app.ErrTTY && !o.logs && o.output.Form() == formatEnv
}

// enterDevView sends what the components say to a file of the state folder, until leave is called.
func enterDevView(opts *devOptions, components []devComponent) (v *devView, leave func(), err error) {
	v = &devView{opts: opts, terminal: opts.app.Streams, log: filepath.Join(opts.dir, devLogFile), runs: []string{"PostgreSQL", "Redis", "Pub/Sub fake"}}
	for _, component := range components {
		v.runs = append(v.runs, component.name)
	}
	file, err := os.OpenFile(v.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the log file: %w", err)
	}
	v.terminal.Err = opts.talk.divert(file)
	opts.app.ErrTTY = false
	return v, func() {
		opts.talk.divert(v.terminal.Err)
		opts.app.ErrTTY = true
		_ = file.Close() // logs of a stack that is gone
	}, nil
}

func (v *devView) run(ctx context.Context, app *cli.App) error {
	app.Streams = v.terminal
	box, err := app.Outbox(ctx)
	if err != nil {
		return err
	}
	return app.Watch(ctx, cli.Watch{On: true, Every: devViewEvery}, func(ctx context.Context) error { return v.look(ctx, app, box) })
}

func (v *devView) look(ctx context.Context, app *cli.App, box *dlq.Outbox) error {
	report, err := stats.Collect(ctx, box.DB, box.Registry, stats.Params{})
	if err != nil {
		return err
	}
	var dead []dlq.Entry
	newest := outbox.ListParams{Filter: dlq.Filter{State: dlq.StateOpen}, Page: outbox.Page{Limit: devViewDead}}
	if _, err := box.ListDeadLetters(ctx, newest, func(e dlq.Entry) error { dead = append(dead, e); return nil }); err != nil {
		return err
	}
	v.backlog.Add(float64(report.Backlog))
	v.departed.Add(report.Flow.DrainPerSecond)
	v.head(app.Out, report)
	if len(dead) > 0 {
		fmt.Fprintln(app.Out)
		if err := cli.WriteList(app, cli.Output{Format: cli.FormatTable}, dlqView(), dead); err != nil {
			return err
		}
	}
	if len(dead) > 0 && report.At.Sub(v.sampled) > devViewSample {
		v.sample, v.sampled = dead[0], report.At
	}
	v.next(app.Out)
	return nil
}

// head prints what runs and how the events are doing.
func (v *devView) head(w io.Writer, report *stats.Report) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("outboxctl dev", "%s; up %s", strings.Join(v.runs, ", "), cli.Age(report.At.Sub(v.opts.info.StartedAt)))
	if v.opts.info.UIURL != "" {
		line("page", "%s", v.opts.info.UIURL)
	}
	line("logs", "%s", v.log)
	fmt.Fprintln(w)
	line("published", "%-22s %s", fmt.Sprintf("%.1f/s, %s in 5m", report.Flow.DrainPerSecond, words.Count(report.Published.Last5m)), v.departed)
	line("waiting", "%-22s %s", fmt.Sprintf("%s, oldest %s", words.Count(report.Backlog), cli.Age(time.Duration(report.OldestAgeSeconds*float64(time.Second)))), v.backlog)
	line("dead letters", "%s open", words.Count(report.DLQ.Open))
}

// next names commands for another terminal that show something now.
func (v *devView) next(w io.Writer) {
	commands := []string{"outboxctl stats", "outboxctl event list"}
	if v.sample.ID != "" {
		commands = []string{
			"outboxctl dlq list --group-by fingerprint", "outboxctl why " + v.sample.EventID, "outboxctl dlq show " + v.sample.ID,
			"outboxctl dlq replay --reason " + v.sample.Reason + " --dry-run",
		}
	}
	fmt.Fprintln(w, "\nIn another terminal:")
	for _, command := range commands {
		fmt.Fprintln(w, "  "+command)
	}
	fmt.Fprintln(w, "\n"+devFarewell(v.opts))
}
