package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/check"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// checkUnknown is the exit code when the probe itself failed; the other codes are those of check.Level.
const checkUnknown = 3

// defaultOutage warns at once and becomes critical when an outage is no hiccup any more.
const defaultOutage = "0s,5m"

type checkOptions struct {
	app *cli.App

	backlog, age, dead, attempts, parked, outage threshold
	needPublisher                                bool
}

func newCheckCmd(app *cli.App) *cobra.Command {
	opts := &checkOptions{app: app, age: threshold{parse: parseAge}, outage: threshold{parse: parseAge}}
	cli.Must(opts.outage.Set(defaultOutage))
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Probe the outbox for a monitoring system (Nagios codes and perfdata)",
		Long: `Print one line with perfdata and exit with 0 (ok), 1 (warning), 2 (critical) or 3 (unknown: the probe itself failed).

A threshold is CRITICAL or WARNING,CRITICAL; a figure above it raises the alarm, and the line begins with what raised it.
Only --max-topic-outage has a default: a topic that a live publisher cannot publish to is a warning at once and critical
after five minutes. Other figures without a threshold are printed and not judged. With several contexts (--context a,b or
all) the first line is of all of them, and a line for each follows.`,
		Example: `  outboxctl check --max-backlog 1000,10000 --max-age 2m,10m --max-dead 0,100
  outboxctl check --max-attempt-rows 0 --need-publisher --context all`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), opts) },
	}
	flags := cmd.Flags()
	flags.Var(&opts.backlog, "max-backlog", "events that wait")
	flags.Var(&opts.age, "max-age", "age of the oldest event that waits, such as 5m or 2m,10m")
	flags.Var(&opts.dead, "max-dead", "open dead letters")
	flags.Var(&opts.attempts, "max-attempt-rows", "events that have no attempts left")
	flags.Var(&opts.parked, "max-parked", "events that wait behind a dead one of their ordering key")
	flags.Var(&opts.outage, "max-topic-outage", "time for which a topic has been unreachable or misconfigured")
	flags.BoolVar(&opts.needPublisher, "need-publisher", false, "critical when no publisher is alive")
	return cmd
}

// checkFailed turns any failure of the probe itself into "unknown", on stdout: a monitoring system reads only its first
// line.
func checkFailed(out io.Writer, err error) error {
	err = fault.Database(err)
	if _, printErr := fmt.Fprintf(out, "OUTBOX UNKNOWN - %s\n", pluginText(safetext.Redact(err.Error()))); printErr != nil {
		return cli.Exit(checkUnknown, err)
	}
	return cli.Said(checkUnknown, err)
}

// pluginText is one line without the sign that begins the perfdata.
func pluginText(text string) string {
	return strings.ReplaceAll(safetext.Line(strings.Join(strings.Fields(text), " ")), "|", "/")
}

func runCheck(ctx context.Context, opts *checkOptions) error {
	if names := opts.app.Several(); names != nil {
		return checkContexts(ctx, opts, names)
	}
	result, err := opts.judge(ctx, opts.app)
	if err != nil {
		return checkFailed(opts.app.Out, err)
	}
	if _, err := fmt.Fprintln(opts.app.Out, checkLine(result)); err != nil {
		return cli.Exit(checkUnknown, fmt.Errorf("print the verdict: %w", err)) // the monitoring system has not got it
	}
	if result.Level != check.OK {
		return cli.Silent(int(result.Level))
	}
	return nil
}

// judge takes the figures and judges them.
func (opts *checkOptions) judge(ctx context.Context, app *cli.App) (*check.Result, error) {
	cfg, box, err := configured(ctx, app)
	if err != nil {
		return nil, err
	}
	return check.Run(ctx, box.DB, box.Registry, check.Params{
		MaxAttempts: cfg.Publish.MaxAttempts, NeedPublisher: opts.needPublisher,
		Backlog: opts.backlog.limits, Age: opts.age.limits, Dead: opts.dead.limits, AttemptRows: opts.attempts.limits, Parked: opts.parked.limits,
		Outage: opts.outage.limits,
	})
}

// checkContexts prints one line for all contexts, which names those that are not well and has the figures of all, and then a
// line for each. A critical one is worse than one that could not be asked.
func checkContexts(ctx context.Context, opts *checkOptions, names []string) error {
	var bad, perf, lines []string
	code, level := 0, check.OK.String()
	worse := []int{0, 1, 3, 2} // by exit code
	for _, c := range cli.InContexts(ctx, opts.app, names, cli.ContextsAtOnce, opts.judge) {
		name, own, said, text := pluginText(c.Context), checkUnknown, "UNKNOWN", pluginText(c.Problem)
		if r := c.Result; c.Err != nil {
			bad = append(bad, name+": "+text)
		} else {
			own, said, text = int(r.Level), r.Level.String(), checkWords(r)
			perf = append(perf, perfdata(r, name+".")...)
			if r.Level != check.OK {
				bad = append(bad, name+": "+pluginText(strings.Join(r.Alarms, "; ")))
			}
		}
		if worse[own] > worse[code] {
			code, level = own, said
		}
		lines = append(lines, fmt.Sprintf("%s: %s - %s", name, said, text))
	}
	first := fmt.Sprintf("OUTBOX %s - %d of %s ok", level, len(names)-len(bad), words.Counted(int64(len(names)), "context"))
	if len(bad) > 0 {
		first += "; " + strings.Join(bad, "; ")
	}
	if _, err := fmt.Fprintf(opts.app.Out, "%s | %s\n%s\n", first, strings.Join(perf, " "), strings.Join(lines, "\n")); err != nil {
		return cli.Exit(checkUnknown, fmt.Errorf("print the verdict: %w", err))
	}
	if code != 0 {
		return cli.Silent(code)
	}
	return nil
}

// checkLine is the verdict as a Nagios plugin prints it: what raised it, the other figures, then perfdata.
func checkLine(r *check.Result) string {
	return fmt.Sprintf("OUTBOX %s - %s | %s", r.Level, checkWords(r), strings.Join(perfdata(r, ""), " "))
}

// checkWords is what raised the verdict, and the other figures.
func checkWords(r *check.Result) string {
	words := strings.Join(r.Remarks, ", ")
	if len(r.Alarms) > 0 {
		words = strings.Join(r.Alarms, "; ") + "; " + words
	}
	return pluginText(words)
}

// perfdata is the figures, each label behind a prefix. A label with a blank is quoted.
func perfdata(r *check.Result, prefix string) []string {
	perf := make([]string, len(r.Figures))
	for i, f := range r.Figures {
		label := prefix + f.Label
		if strings.ContainsAny(label, " '=") {
			label = "'" + strings.NewReplacer("'", "''", "=", "_").Replace(label) + "'"
		}
		perf[i] = fmt.Sprintf("%s=%s%s;%s;%s;0", label, number(f.Value), f.Unit, optional(f.Warning), optional(f.Critical))
	}
	return perf
}

// A threshold is a flag with CRITICAL or WARNING,CRITICAL.
type threshold struct {
	text   string
	limits check.Threshold
	parse  func(string) (float64, error)
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
	limits := check.Threshold{Critical: &c}
	if both {
		w, err := parse(warn)
		if err != nil {
			return err
		}
		if w > c {
			return errors.New("the warning is above the critical value")
		}
		limits.Warning = &w
	}
	t.text, t.limits = text, limits
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
	d, err := words.ParseDuration(strings.TrimSpace(text))
	if err == nil && d < 0 {
		err = errors.New("must not be negative")
	}
	return d.Seconds(), err
}

func optional(v *float64) string {
	if v == nil {
		return ""
	}
	return number(*v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
