package ui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

// The size of a plot in units of its view box, which is stretched.
const (
	plotWidth  = 1000
	plotHeight = 100
)

// plot is a chart that starts at zero, drawn on the server. Its words say the same.
type plot struct {
	Name, Words string
	Lines       []plotLine
	// Levels are the marks of the upright axis from the top, Times those of the other.
	Levels, Times []string
	// From and Step are seconds; Readings are what the pointer reads.
	From, Step int64
	Readings   string
}

type plotLine struct{ Name, Path string }

// figureOf is the figure of a line in one step; nil: there is none.
func figureOf(line string, f stats.HistoryFigures) *float64 {
	switch line {
	case "p50":
		return f.P50
	case "p99":
		return f.P99
	}
	return new(float64(map[string]int64{"in": f.In, "out": f.Out, "failed": f.Failed, "dead": f.Dead}[line]))
}

func wholeWords(v float64) string { return words.Count(int64(math.Ceil(v))) }

func plots(r stats.HistoryReport) []plot {
	return []plot{
		newPlot("In and out", r, wholeWords, "in", "out"),
		newPlot("Failed and dead", r, wholeWords, "failed", "dead"),
		newPlot("Latency", r, latencyWords, "p50", "p99"),
	}
}

// newPlot draws some figures of a history on one scale. unit writes a value in words.
func newPlot(name string, r stats.HistoryReport, unit func(float64) string, lines ...string) plot {
	span := map[string]string{"1h": "1 h,30 min", "24h": "24 h,12 h", "7d": "7 d,3½ d"}[r.Span]
	p := plot{Name: name, Step: r.StepSeconds}
	if len(r.Steps) == 0 {
		return p
	}
	p.From = r.Steps[0].At.Unix()
	for ago := range strings.SplitSeq(span, ",") {
		p.Times = append(p.Times, ago+" ago")
	}
	p.Times = append(p.Times, "now")
	top := 0.0
	for _, s := range r.Steps {
		for _, l := range lines {
			if v := figureOf(l, s.HistoryFigures); v != nil {
				top = max(top, *v)
			}
		}
	}
	top = roundAbove(top)
	p.Levels = []string{unit(top), unit(top / 2), "0"}
	readings := make([]string, len(r.Steps))
	var said []string
	for i, l := range lines {
		path, most, pen := &strings.Builder{}, 0.0, "M"
		for j, s := range r.Steps {
			v := figureOf(l, s.HistoryFigures)
			if i > 0 {
				readings[j] += "|"
			}
			if v == nil {
				pen = "M"
				continue
			}
			most = max(most, *v)
			readings[j] += unit(*v)
			fmt.Fprintf(path, "%s%d %d", pen, j*plotWidth/max(len(r.Steps)-1, 1), plotHeight-int(math.Round(plotHeight**v/top)))
			if pen == "M" {
				path.WriteString("h1") // one that stands alone is seen
			}
			pen = "L"
		}
		p.Lines = append(p.Lines, plotLine{l, path.String()})
		said = append(said, fmt.Sprintf("%s at most %s", l, unit(most)))
	}
	p.Readings = strings.Join(readings, ";")
	p.Words = fmt.Sprintf("%s in the last %s, from zero, in steps of %s: %s", name, r.Span, spanOf(r.StepSeconds), strings.Join(said, ", "))
	return p
}

func spanOf(seconds int64) string { return span(time.Duration(seconds) * time.Second) }

// roundAbove is the first round number that is not below v; its half is round too.
func roundAbove(v float64) float64 {
	if v <= 0 {
		return 2
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 4, 6} {
		if n*power >= v && (v < 1 || n*power >= 2) {
			return n * power
		}
	}
	return 10 * power
}

type historyData struct {
	stats.HistoryReport
	Tabs        []tab
	Plots       []plot
	Topic, Type string
	Topics      []string
	EventTypes  []string
	Recent      []stats.HistoryStep
}

func historyPage(r *request) (*view, error) {
	q := r.URL.Query()
	p := stats.HistoryParams{Span: one(q, "span", "1h"), Topic: one(q, "topic", ""), Type: one(q, "type", "")}
	report, err := stats.History(r.Context(), r.outbox.DB, r.now, p)
	if err != nil {
		return nil, err
	}
	d := historyData{
		HistoryReport: report, Topic: p.Topic, Type: p.Type, Plots: plots(report), Recent: eventful(report),
		Topics: including(p.Topic, r.outbox.Registry.TopicNames()), EventTypes: including(p.Type, r.outbox.Registry.EventTypes()),
	}
	for _, s := range stats.HistorySpans() {
		d.Tabs = append(d.Tabs, tab{s, "/history?" + with(q, "span", s), s == p.Span})
	}
	return &view{Title: "History", Command: "outboxctl stats --by type", Live: true, Every: time.Minute.Milliseconds(), template: "history", Data: d}, nil
}

// including is names with one that was chosen, which may be a former one.
func including(chosen string, names []string) []string {
	if chosen == "" || slices.Contains(names, chosen) {
		return names
	}
	return append(slices.Clone(names), chosen)
}

// eventful are the steps in which something happened, the newest first.
func eventful(r stats.HistoryReport) (steps []stats.HistoryStep) {
	for _, s := range slices.Backward(r.Steps) {
		if s.In+s.Out+s.Failed+s.Dead > 0 {
			steps = append(steps, s)
		}
	}
	return steps
}

// latencyWords is a number of seconds, which may be much less than one.
func latencyWords(seconds float64) string {
	switch {
	case seconds >= 10:
		return words.Seconds(seconds)
	case seconds >= 1:
		return fmt.Sprintf("%.1f s", seconds)
	default:
		return fmt.Sprintf("%.0f ms", seconds*1000)
	}
}
