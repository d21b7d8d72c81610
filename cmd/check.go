package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// The exit codes of a Nagios plugin.
const (
	checkOK       = 0
	checkWarning  = 1
	checkCritical = 2
	checkUnknown  = 3
)

type checkOptions struct {
	app *cli.App

	backlog, age, dead, attempts threshold
	needPublisher                bool
}

func newCheckCmd(app *cli.App) *cobra.Command {
	opts := &checkOptions{app: app, age: threshold{unit: "s", parse: parseAge}}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Probe the outbox for a monitoring system (Nagios codes and perfdata)",
		Long: `Print one line with perfdata and exit with 0 (ok), 1 (warning), 2 (critical) or 3 (unknown: the probe itself failed).

A threshold is CRITICAL or WARNING,CRITICAL; a figure above it raises the alarm. Without thresholds the figures are
printed and nothing is judged.`,
		Example: `  outboxctl check --max-backlog 1000,10000 --max-age 2m,10m --max-dead 0,100
  outboxctl check --max-attempt-rows 0 --need-publisher`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), opts) },
	}
	flags := cmd.Flags()
	flags.Var(&opts.backlog, "max-backlog", "events that wait")
	flags.Var(&opts.age, "max-age", "age of the oldest event that waits, such as 5m or 2m,10m")
	flags.Var(&opts.dead, "max-dead", "open dead letters")
	flags.Var(&opts.attempts, "max-attempt-rows", "events that used up their attempts")
	flags.BoolVar(&opts.needPublisher, "need-publisher", false, "critical when no publisher is alive")
	return cmd
}

// checkFailed turns any failure of the probe itself into "unknown". A monitoring system reads only the first line of
// stdout, and takes what follows a | in it for perfdata.
func checkFailed(out io.Writer, err error) error {
	text := strings.Join(strings.Fields(safetext.Redact(err.Error())), " ")
	fmt.Fprintf(out, "OUTBOX UNKNOWN - %s\n", strings.ReplaceAll(safetext.Line(text), "|", "/"))
	return cli.Exit(checkUnknown, err)
}

func runCheck(ctx context.Context, opts *checkOptions) error {
	cfg, err := opts.app.Config("database.url")
	if err != nil {
		return checkFailed(opts.app.Out, err)
	}
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return checkFailed(opts.app.Out, err)
	}
	report, err := stats.New(pool, opts.app.Registry).Collect(ctx, stats.Params{MaxAttempts: cfg.Publish.MaxAttempts, StateOnly: true})
	if err != nil {
		return checkFailed(opts.app.Out, operate.StoreError(err))
	}
	code, line := opts.judge(report)
	if _, err := fmt.Fprintln(opts.app.Out, line); err != nil {
		return cli.Exit(checkUnknown, fmt.Errorf("print the verdict: %w", err)) // whoever reads it has not got it
	}
	if code != checkOK {
		return cli.Silent(code)
	}
	return nil
}

// judge compares a report with the thresholds.
func (opts *checkOptions) judge(r *stats.Report) (code int, line string) {
	figures := []struct {
		name, perf string
		value      float64
		limit      threshold
	}{
		{"backlog", "backlog", float64(r.Backlog), opts.backlog},
		{"oldest", "age", r.OldestAgeSeconds, opts.age},
		{"dead", "dead", float64(r.DLQ.Open), opts.dead},
		{"at max attempts", "attempt_rows", float64(r.AtMaxAttempts), opts.attempts},
	}
	var said, perf []string
	for _, f := range figures {
		code = max(code, f.limit.judge(f.value))
		said = append(said, f.name+" "+f.limit.show(f.value))
		perf = append(perf, fmt.Sprintf("%s=%s%s;%s;%s;0", f.perf, number(f.value), f.limit.unit, f.limit.warning(), f.limit.critical()))
	}
	for _, t := range r.Topics {
		said = append(said, "topic "+safetext.Line(t.Topic)+" "+safetext.Line(t.State))
	}
	if opts.needPublisher && len(r.Publishers) == 0 {
		code = checkCritical
		said = append(said, "no publisher alive")
	}
	state := [...]string{checkOK: "OK", checkWarning: "WARNING", checkCritical: "CRITICAL"}[code]
	return code, fmt.Sprintf("OUTBOX %s - %s | %s", state, strings.Join(said, ", "), strings.Join(perf, " "))
}

// A threshold is CRITICAL or WARNING,CRITICAL. The zero threshold judges nothing.
type threshold struct {
	text       string
	warn, crit *float64
	unit       string
	parse      func(string) (float64, error)
}

func (t *threshold) String() string { return t.text }
func (t *threshold) Type() string   { return "[warn,]crit" }

func (t *threshold) Set(text string) error {
	parse := t.parse
	if parse == nil {
		parse = parseCount
	}
	warn, crit, both := strings.Cut(text, ",")
	if !both {
		crit = warn
	}
	c, err := parse(crit)
	if err != nil {
		return err
	}
	t.text, t.crit, t.warn = text, &c, nil
	if both {
		w, err := parse(warn)
		if err != nil {
			return err
		}
		if w > c {
			return errors.New("the warning is above the critical value")
		}
		t.warn = &w
	}
	return nil
}

func parseCount(text string) (float64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not a count", text)
	}
	return float64(n), nil
}

func parseAge(text string) (float64, error) {
	d, err := cli.ParseDuration(strings.TrimSpace(text))
	if err == nil && d < 0 {
		err = errors.New("must not be negative")
	}
	return d.Seconds(), err
}

func (t threshold) judge(value float64) int {
	switch {
	case t.crit != nil && value > *t.crit:
		return checkCritical
	case t.warn != nil && value > *t.warn:
		return checkWarning
	default:
		return checkOK
	}
}

func (t threshold) show(value float64) string {
	if t.unit == "s" {
		return seconds(value)
	}
	return number(value)
}

func (t threshold) warning() string  { return optional(t.warn) }
func (t threshold) critical() string { return optional(t.crit) }

func optional(v *float64) string {
	if v == nil {
		return ""
	}
	return number(*v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
