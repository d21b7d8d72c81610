package cmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

type statsOptions struct {
	app *cli.App

	by     string
	watch  cli.Watch
	output cli.Output
}

func newStatsCmd(app *cli.App) *cobra.Command {
	opts := &statsOptions{app: app}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show what waits, what moves, what is dead and who publishes",
		Long: `Show backlog, oldest age, what is in flight, what was published lately, arrivals
against departures with a forecast, open dead letters by reason, live publishers, and topics that
are unreachable or misconfigured. All figures are exact and come from one snapshot of the database;
neither Redis nor the broker is needed for them.

An event that dies leaves the backlog like one that is published. A backlog of which nothing is
older than a few seconds is called keeping up.

With --by the backlog is split, and -o wide, csv and id list the groups. Of several contexts
(--context a,b or all) each is a row.`,
		Example: `  outboxctl stats
  outboxctl stats --by topic
  outboxctl stats --watch
  outboxctl stats --context all
  outboxctl stats -o json | jq .backlog`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if names := opts.app.Several(); names != nil {
				return opts.app.Watch(cmd.Context(), opts.watch, func(ctx context.Context) error {
					return statsOfContexts(ctx, opts, names)
				})
			}
			return runStats(cmd.Context(), opts)
		},
	}
	cli.AddChoice(cmd.Flags(), &opts.by, "by", "split the backlog by `column`", stats.Dimensions()...)
	cli.AddWatchFlags(cmd, &opts.watch)
	cli.AddListOutput[stats.Group](cmd, &opts.output)
	cli.KnowFields[contextStats](&opts.output)
	cli.KnowFields[stats.Report](&opts.output)
	return cmd
}

func runStats(ctx context.Context, opts *statsOptions) error {
	cfg, box, err := configured(ctx, opts.app)
	if err != nil {
		return err
	}
	params := stats.Params{MaxAttempts: cfg.Publish.MaxAttempts, By: opts.by, Probes: opts.app.Probes()}
	return watchStats(ctx, opts, box, params)
}

// print writes a report in the chosen form. Wide, CSV and id are lists, so they show the groups.
func (opts *statsOptions) print(w io.Writer, report *stats.Report) error {
	switch opts.output.Form() {
	case cli.FormatWide, cli.FormatCSV, cli.FormatID:
		if opts.by == "" {
			return fault.Usagef("-o %s lists groups: add --by", opts.output.Format)
		}
		return cli.WriteList(opts.app, opts.output, groupView(opts.by), report.Groups)
	case cli.FormatTable:
		if err := sayStats(opts.app, w, report); err != nil || opts.by == "" {
			return err
		}
		fmt.Fprintln(w)
		return cli.WriteList(opts.app, opts.output, groupView(opts.by), report.Groups)
	default:
		return cli.WriteObject(opts.app, opts.output, report, nil)
	}
}

func groupView(by string) cli.View[stats.Group] {
	return cli.View[stats.Group]{
		ID: func(g stats.Group) string { return g.Key },
		Columns: []cli.Column[stats.Group]{
			{Head: by, Field: "key"},
			{Head: "backlog"},
			{Head: "due", Wide: true},
			{Head: "backing-off", Field: "backingOff"},
			{Head: "in-flight", Field: "inFlight"},
			{Head: "scheduled", Wide: true},
			{Head: "parked", Wide: true},
			{Head: "at-max", Field: "atMaxAttempts", Wide: true},
			{Head: "dlq-open", Field: "dlqOpen"},
			{Head: "oldest", Field: "oldestUnpublishedAt"},
		},
	}
}

// sayStats writes a report for a person.
func sayStats(a *cli.App, w io.Writer, r *stats.Report) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		const indent = 12
		text := strings.TrimSpace(fmt.Sprintf(format, args...))
		if a.OutTTY && a.Width > 0 && indent+ansi.StringWidth(text) > a.Width {
			text = cli.Fill(strings.Fields(text), indent, indent, a.Width)
		}
		fmt.Fprintf(&b, "%-*s%s\n", indent, label, text)
	}
	warn := func(label, format string, args ...any) {
		text := strings.TrimSpace(safetext.Line(fmt.Sprintf(format, args...)))
		line(label, "%s", a.Paint(a.OutTTY, cli.StyleWarn, text))
	}
	n := humanize.Comma
	line("backlog", "%s  (%s due, %s backing off, %s in flight)", n(r.Backlog), n(r.Due), n(r.BackingOff), n(r.InFlight))
	oldest := "nothing waits"
	if r.OldestUnpublishedAt != nil {
		oldest = words.Seconds(r.OldestAgeSeconds)
	}
	line("oldest", "%s", oldest)
	line("published", "%s", publishedLine(r))
	line("flow", "%.1f/s in, %.1f/s out: %s", r.Flow.ArrivalPerSecond, r.Flow.DrainPerSecond, forecast(r.Flow))
	if r.Scheduled > 0 {
		behind := ""
		if r.BehindScheduled > 0 {
			behind = fmt.Sprintf("; %s %s behind in order", words.Counted(r.BehindScheduled, "event"), plural(r.BehindScheduled, "waits", "wait"))
		}
		line("scheduled", "%s: outboxctl event list --status scheduled%s", n(r.Scheduled), behind)
	}
	if r.BlockedKeys > 0 {
		warn("parked", "%s wait behind the dead events of %s: outboxctl dlq list --blocking",
			words.Counted(r.Parked, "event"), words.Counted(r.BlockedKeys, "ordering key"))
	}
	line("exhausted", "%s", n(r.AtMaxAttempts))
	line("dlq", "%s open%s", n(r.DLQ.Open), reasons(r.DLQ.ByReason))
	line("publishers", "%s", publishersLine(r))
	for _, t := range r.Topics {
		warn("topic", "%s has been %s for %s at %s: %s", t.Topic, t.State, words.Seconds(t.OutageSeconds(r.At)),
			t.Publisher, t.Error)
	}
	for _, s := range r.Pauses {
		text := fmt.Sprintf("%s %s by %s %s, %s wait", s.Kind, s.Value, s.Actor, outbox.PauseEnds(r.At, s.Until), words.Counted(s.Events, "event"))
		if s.Note != "" {
			text += ": " + s.Note
		}
		warn("paused", "%s", text)
	}
	for _, s := range r.Stranded {
		warn("stranded", "no publisher takes %s: %s left waiting, the oldest for %s", s.Name(), words.Counted(s.Events, "event"),
			words.Seconds(r.At.Sub(s.OldestAt).Seconds()))
	}
	for _, c := range r.Consumers {
		if c.Failing+c.GaveUp > 0 {
			warn("consumer", "%s fails on %s and gave up %s: outboxctl consumer failures %[1]s", c.Consumer,
				n(c.Failing), n(c.GaveUp))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Dependencies)) {
		if state := r.Dependencies[name]; state != stats.DependencyOK {
			warn(name, "%s", state)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// publishedLine tells what was published lately; "at least" where a cleanup has removed a part of
// it.
func publishedLine(r *stats.Report) string {
	since := r.Published.CountedSince
	windows := []struct {
		name   string
		length time.Duration
		count  int64
	}{{"1m", time.Minute, r.Published.Last1m}, {"5m", 5 * time.Minute, r.Published.Last5m}, {"1h", time.Hour, r.Published.Last1h}}
	parts := make([]string, len(windows))
	for i, w := range windows {
		parts[i] = fmt.Sprintf("%s in %s", humanize.Comma(w.count), w.name)
		if since != nil && since.After(r.At.Add(-w.length)) {
			parts[i] = "at least " + parts[i]
		}
	}
	text := strings.Join(parts, ", ")
	if since != nil {
		text += fmt.Sprintf("  (a cleanup removed what was published before %s)", since.UTC().Format(time.RFC3339))
	}
	return text
}

func forecast(f stats.Flow) string {
	switch f.State {
	case stats.FlowDrained:
		return "drained"
	case stats.FlowKeepingUp:
		return "keeping up"
	case stats.FlowShrinking:
		return "drained in about " + words.Seconds(*f.ETASeconds)
	default:
		return "the backlog does not shrink"
	}
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
