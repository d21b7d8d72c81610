package cmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/check"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

type checkOptions struct {
	app    *cli.App
	params check.Params
}

func newCheckCmd(app *cli.App) *cobra.Command {
	opts := &checkOptions{app: app}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Probe the outbox for a monitoring system (Nagios codes and perfdata)",
		Long: `Print one line with perfdata and exit with 0 (ok), 1 (warning), 2 (critical) or 3
(unknown: the probe itself failed).

A threshold is CRITICAL or WARNING,CRITICAL; a figure above it raises the alarm, and the line begins
with what raised it. Only --max-topic-outage has a default: a topic that a live publisher cannot
publish to is a warning at once and critical after five minutes. Other figures without a threshold
are printed and not judged.`,
		Example: `  outboxctl check --max-backlog 1000,10000 --max-age 2m,10m --max-dead 0,100
  outboxctl check --max-attempt-rows 0 --need-publisher --context production`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), opts) },
	}
	flags, p := cmd.Flags(), &opts.params
	count := func(at *check.Threshold) *threshold { return &threshold{at: at, figure: check.Count} }
	age := func(at *check.Threshold) *threshold { return &threshold{at: at, figure: check.Seconds} }
	outage := age(&p.Outage)
	cli.Must(outage.Set("0s,5m")) // five minutes are no hiccup any more
	flags.Var(count(&p.Backlog), "max-backlog", "events that wait")
	flags.Var(age(&p.Age), "max-age", "age of the oldest event that waits, such as 5m or 2m,10m")
	flags.Var(count(&p.Dead), "max-dead", "open dead letters")
	flags.Var(count(&p.AttemptRows), "max-attempt-rows", "events that have no attempts left")
	flags.Var(count(&p.Parked), "max-parked", "events that wait behind a dead one of their ordering key")
	flags.Var(outage, "max-topic-outage", "time for which a topic has been unreachable or misconfigured")
	flags.BoolVar(&p.NeedPublisher, "need-publisher", false, "critical when no publisher is alive")
	return cmd
}

// checkFailed turns any failure of the probe itself into "unknown", on stdout: a monitoring system
// reads only its first line.
func checkFailed(out io.Writer, err error) error {
	err = fault.Database(err)
	if _, printErr := fmt.Fprintf(out, "OUTBOX UNKNOWN - %s\n", check.Text(safetext.Redact(err.Error()))); printErr != nil {
		return cli.Exit(check.Unknown, err)
	}
	return cli.Said(check.Unknown, err)
}

func runCheck(ctx context.Context, opts *checkOptions) error {
	result, err := opts.judge(ctx)
	if err != nil {
		return checkFailed(opts.app.Out, err)
	}
	if _, err := fmt.Fprintln(opts.app.Out, result.Line()); err != nil {
		return cli.Exit(check.Unknown, fmt.Errorf("print the verdict: %w", err)) // the monitoring system has not got it
	}
	if result.Level != check.OK {
		return cli.Silent(int(result.Level))
	}
	return nil
}

// judge takes the figures and judges them.
func (opts *checkOptions) judge(ctx context.Context) (*check.Result, error) {
	cfg, box, err := configured(ctx, opts.app)
	if err != nil {
		return nil, err
	}
	p := opts.params
	p.MaxAttempts = cfg.Publish.MaxAttempts
	return check.Run(ctx, box.DB, box.Registry, p)
}

// threshold is a flag with CRITICAL or WARNING,CRITICAL.
type threshold struct {
	at     *check.Threshold
	figure func(string) (float64, error)
	text   string
}

func (t *threshold) String() string { return t.text }
func (t *threshold) Type() string   { return "[warn,]crit" }

func (t *threshold) Set(text string) error {
	limits, err := check.ParseThreshold(text, t.figure)
	if err == nil {
		t.text, *t.at = text, limits
	}
	return err
}
