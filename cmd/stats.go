package cmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
)

type statsOptions struct {
	app *App

	by       string
	watch    bool
	interval time.Duration
	output   outputFlag
}

func newStatsCmd(app *App) *cobra.Command {
	opts := &statsOptions{app: app}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show what waits, what moves, what is dead and who publishes",
		Long: `Show backlog, oldest age, what is in flight, what was published lately, arrivals against departures with a forecast,
open dead letters by reason, live publishers and paused topics. All figures are exact and come from one snapshot of the
database; neither Redis nor Pub/Sub is needed for them.

With --by the backlog is split, and -o wide, csv and id list the groups.`,
		Example: `  outboxctl stats
  outboxctl stats --by topic
  outboxctl stats --watch
  outboxctl stats -o json | jq .backlog`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStats(cmd.Context(), opts) },
	}
	cmd.Flags().StringVar(&opts.by, "by", "", "split the backlog by "+strings.Join(stats.Dimensions(), ", "))
	cmd.Flags().BoolVar(&opts.watch, "watch", false, "show again and again until interrupted")
	addLimit(cmd, &opts.interval, "interval", 2*time.Second, 100*time.Millisecond, "pause between two looks with --watch")
	addOutputFlag(cmd, &opts.output, listFormats()...)
	must(cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(stats.Dimensions(), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func runStats(ctx context.Context, opts *statsOptions) error {
	if opts.by != "" && !slices.Contains(stats.Dimensions(), opts.by) {
		return usageErrorf("--by: %q is none of %s", opts.by, strings.Join(stats.Dimensions(), ", "))
	}
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	collector := stats.New(pool, opts.app.Registry)
	if opts.watch {
		return watchStats(ctx, opts, collector)
	}
	report, err := opts.collect(ctx, collector)
	if err != nil {
		return err
	}
	return opts.print(opts.app.Out, report)
}

func (opts *statsOptions) collect(ctx context.Context, collector *stats.Collector) (*stats.Report, error) {
	cfg, err := opts.app.Config()
	if err != nil {
		return nil, err
	}
	probed := opts.app.probeDependencies(ctx)
	report, err := collector.Collect(ctx, stats.Params{MaxAttempts: cfg.Publish.MaxAttempts, By: opts.by})
	if err != nil {
		return nil, schemaError(err)
	}
	report.Dependencies = <-probed
	return report, nil
}

// print writes a report in the chosen form. Wide, CSV and id are lists, so they show the groups.
func (opts *statsOptions) print(w io.Writer, report *stats.Report) error {
	switch opts.output.format {
	case formatWide, formatCSV, formatID:
		if opts.by == "" {
			return usageErrorf("-o %s lists groups: add --by", opts.output.format)
		}
		return writeList(opts.app, opts.output.format, groupView(opts.by), report.Groups)
	case formatTable:
		if err := opts.app.sayStats(w, report); err != nil || opts.by == "" {
			return err
		}
		fmt.Fprintln(w)
		return writeList(opts.app, formatTable, groupView(opts.by), report.Groups)
	default:
		return writeObject(opts.app, opts.output.format, report, nil)
	}
}

func groupView(by string) view[stats.Group] {
	count := func(head string, wide bool, n func(stats.Group) int64) column[stats.Group] {
		return column[stats.Group]{head: head, wide: wide, cell: func(g stats.Group, s *cellStyle) string { return s.count(n(g)) }}
	}
	return view[stats.Group]{
		id: func(g stats.Group) string { return g.Key },
		columns: []column[stats.Group]{
			{head: by, cell: func(g stats.Group, _ *cellStyle) string { return g.Key }},
			count("backlog", false, func(g stats.Group) int64 { return g.Backlog }),
			count("due", true, func(g stats.Group) int64 { return g.Due }),
			count("backing-off", false, func(g stats.Group) int64 { return g.BackingOff }),
			count("in-flight", false, func(g stats.Group) int64 { return g.InFlight }),
			count("at-max", true, func(g stats.Group) int64 { return g.AtMaxAttempts }),
			count("dlq-open", false, func(g stats.Group) int64 { return g.DLQOpen }),
			{head: "oldest", cell: func(g stats.Group, s *cellStyle) string { return s.timePtr(g.OldestUnpublishedAt) }},
		},
	}
}

// sayStats writes a report for a person.
func (a *App) sayStats(w io.Writer, r *stats.Report) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", label, fmt.Sprintf(format, args...))
	}
	n := humanize.Comma
	line("backlog", "%s  (%s due, %s backing off, %s in flight)", n(r.Backlog), n(r.Due), n(r.BackingOff), n(r.InFlight))
	oldest := "nothing waits"
	if r.OldestUnpublishedAt != nil {
		oldest = seconds(r.OldestAgeSeconds)
	}
	line("oldest", "%s", oldest)
	line("published", "%s in 1m, %s in 5m, %s in 1h", n(r.Published.Last1m), n(r.Published.Last5m), n(r.Published.Last1h))
	forecast := "the backlog does not shrink"
	switch {
	case r.Backlog == 0:
		forecast = "drained"
	case r.Flow.ETASeconds != nil:
		forecast = "drained in about " + seconds(*r.Flow.ETASeconds)
	}
	line("flow", "%.1f/s in, %.1f/s out: %s", r.Flow.ArrivalPerSecond, r.Flow.DrainPerSecond, forecast)
	line("max attempt", "%s rows used up their attempts", n(r.AtMaxAttempts))
	line("dlq", "%s open%s", n(r.DLQ.Open), reasons(r.DLQ.ByReason))
	line("publishers", "%s", publishersLine(r))
	for _, t := range r.Topics {
		line("topic", "%s", a.paint(a.OutTTY, styleWarn, safetext.Line(fmt.Sprintf("%s is %s at %s: %s", t.Topic, t.State, t.Publisher, t.Error))))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Dependencies)) {
		if state := r.Dependencies[name]; state != dependencyOK {
			line(name, "%s", a.paint(a.OutTTY, styleWarn, safetext.Line(state)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func publishersLine(r *stats.Report) string {
	if len(r.Publishers) == 0 {
		return "none alive"
	}
	names := make([]string, len(r.Publishers))
	for i, p := range r.Publishers {
		names[i] = safetext.Line(fmt.Sprintf("%s/%d", p.Host, p.PID))
	}
	return fmt.Sprintf("%d alive (%s)", len(names), strings.Join(names, ", "))
}

func reasons(byReason map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		parts = append(parts, fmt.Sprintf("%s %s", humanize.Comma(byReason[reason]), reason))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  (" + strings.Join(parts, ", ") + ")"
}

// seconds shows a length of time as people say it: 850ms, 42s, 3m20s, 5h10m.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}
