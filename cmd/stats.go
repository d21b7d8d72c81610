package cmd

import (
	"cmp"
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
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
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

With --by the backlog is split, and -o wide and -o id list the groups.`,
		Example: `  outboxctl stats
  outboxctl stats --by topic
  outboxctl stats --watch
  outboxctl stats -o json | jq .backlog`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStats(cmd.Context(), opts) },
	}
	cli.AddChoice(cmd.Flags(), &opts.by, "by", "split the backlog by `column`", stats.Dimensions()...)
	cli.AddWatchFlags(cmd, &opts.watch)
	cli.AddOutputFlags(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

// runStats shows reports until it is interrupted, on a terminal with sparklines above.
func runStats(ctx context.Context, opts *statsOptions) error {
	cfg, box, err := configured(ctx, opts.app)
	if err != nil {
		return err
	}
	params := stats.Params{MaxAttempts: cfg.Publish.MaxAttempts, By: opts.by, Probes: opts.app.Probes()}
	var backlog, rate cli.Trend
	return opts.app.Watch(ctx, opts.watch, func(ctx context.Context) error {
		report, err := stats.Collect(ctx, box.DB, box.Registry, params)
		if err != nil {
			return err
		}
		backlog.Add(float64(report.Backlog))
		rate.Add(report.Flow.DrainPerSecond)
		if opts.watch.On && opts.app.OutTTY && opts.output.Form() == cli.FormatTable {
			fmt.Fprintf(opts.app.Out, "outboxctl stats, every %s, %s\n\n", opts.watch.Every,
				report.At.Local().Format(time.TimeOnly))
			fmt.Fprintf(opts.app.Out, "%-11s %s\n%-11s %s\n\n", "backlog", backlog, "out/s", rate)
		}
		return opts.print(report)
	})
}

// print writes a report in the chosen form. Wide and id are lists, so they show the groups.
func (opts *statsOptions) print(report *stats.Report) error {
	switch form := opts.output.Form(); form {
	case cli.FormatWide, cli.FormatID:
		if opts.by == "" {
			return fault.Usagef("-o %s lists groups: add --by", opts.output.Format)
		}
	default:
		human := func(p *cli.Page) { sayStats(opts.app, p, report) }
		err := cli.WriteObject(opts.app, opts.output, report, human)
		if err != nil || form != cli.FormatTable || opts.by == "" {
			return err
		}
		fmt.Fprintln(opts.app.Out)
	}
	return cli.WriteList(opts.app, opts.output, cli.View[stats.Group]{
		ID: func(g stats.Group) string { return g.Key },
		Columns: cli.Columns[stats.Group](opts.by + "=key, backlog, due:wide, " +
			"backing-off=backingOff, in-flight=inFlight, scheduled:wide, parked:wide, " +
			"at-max=atMaxAttempts:wide, dlq-open=dlqOpen, oldest=oldestUnpublishedAt"),
	}, report.Groups)
}

// sayStats writes a report for a person.
func sayStats(a *cli.App, w io.Writer, r *stats.Report) {
	line := func(label, format string, args ...any) {
		const indent = 12
		text := strings.TrimSpace(fmt.Sprintf(format, args...))
		if a.OutTTY && a.Width > 0 && indent+ansi.StringWidth(text) > a.Width {
			text = cli.Fill(strings.Fields(text), indent, indent, a.Width)
		}
		fmt.Fprintf(w, "%-*s%s\n", indent, label, text)
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
	line("flow", "%.1f/s in, %.1f/s out: %s", r.Flow.ArrivalPerSecond, r.Flow.DrainPerSecond,
		r.Flow.Forecast())
	if r.Scheduled > 0 {
		behind := ""
		if r.BehindScheduled > 0 {
			behind = fmt.Sprintf("; %s %s behind in order", words.Counted(r.BehindScheduled, "event"), waits(r.BehindScheduled))
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
}

// publishedLine tells what was published lately; "at least" where a cleanup has removed a part.
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

func newPublishersCmd(app *cli.App) *cobra.Command {
	return listing(app, &cobra.Command{
		Use:   "publishers",
		Short: "Show which publishers there are, and what each of them holds",
		Long: `Show every publisher that sends heartbeats, or did so until a few minutes ago and did
not leave: whether it is alive, its version, how many events its leases name, since when it has the
oldest, and what it takes. A holder without a heartbeat is listed as well: its events are published
by others when its leases end.`,
		Example: "  outboxctl publishers\n  outboxctl publishers --watch\n  outboxctl publishers -o json | jq -r '.[] | select(.alive | not).id'",
	}, true, cli.View[dispatch.Peer]{
		Empty: "no publisher is there; outboxctl publish starts one",
		Columns: cli.Columns[dispatch.Peer]("publisher=host pid, state=alive, version, "+
			"seen=lastSeenAt, leases, events=leased, oldest lease=oldestLeaseAt, "+
			"takes=namespace tenantId eventTypes:rest, started=startedAt:wide, id:wide:whole").
			Cell("publisher", func(p dispatch.Peer) string {
				if p.Host == "" {
					return p.ID
				}
				return fmt.Sprintf("%s/%d", p.Host, p.PID)
			}).
			Cell("state", func(p dispatch.Peer) string {
				switch {
				case p.Alive:
					return "alive"
				case p.LastSeenAt == nil:
					return "no heartbeat"
				}
				return "silent"
			}).
			Style("state", func(p dispatch.Peer) cli.Style {
				return either(p.Alive, cli.StyleGood, cli.StyleWarn)
			}).
			Cell("takes", func(p dispatch.Peer) string { return cmp.Or(p.Takes(), "-") }),
	}, from(app.Outbox,
		func(ctx context.Context, box *dlq.Outbox, _ []string) ([]dispatch.Peer, error) {
			return stats.Publishers(ctx, box.DB)
		}))
}
