package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

// Level is a verdict. Its value is the exit code of a Nagios plugin.
type Level int

// The verdicts, from good to bad.
const (
	LevelOK Level = iota
	LevelWarning
	LevelCritical
)

func (l Level) String() string {
	return [...]string{LevelOK: "OK", LevelWarning: "WARNING", LevelCritical: "CRITICAL"}[l]
}

// A Threshold raises an alarm when a figure is above it. A nil limit raises none.
type Threshold struct{ Warning, Critical *float64 }

// Judge compares a figure with the threshold.
func (t Threshold) Judge(value float64) Level {
	switch {
	case t.Critical != nil && value > *t.Critical:
		return LevelCritical
	case t.Warning != nil && value > *t.Warning:
		return LevelWarning
	default:
		return LevelOK
	}
}

// CheckParams are the limits that Check judges by.
type CheckParams struct {
	// MaxAttempts is the publisher's maximum, for the rows that have none of their own.
	MaxAttempts int
	// Backlog, Dead, AttemptRows and Parked count rows; Age and Outage are in seconds.
	Backlog, Age, Dead, AttemptRows, Parked Threshold
	// Outage is how long a topic may be unreachable or misconfigured.
	Outage Threshold
	// NeedPublisher makes it critical that no publisher is alive.
	NeedPublisher bool
}

// A Figure is what was measured, with the threshold it was judged by.
type Figure struct {
	Name  string // in words
	Label string // in perfdata
	Unit  string // "s", or empty for a count
	Value float64
	Threshold
	Level Level
}

// CheckResult is the verdict and what led to it.
type CheckResult struct {
	Level   Level
	Figures []Figure
	// Alarms name what is above its threshold, Remarks everything else.
	Alarms, Remarks []string
}

// Check judges the state of the outbox.
func (o *Outbox) Check(ctx context.Context, p CheckParams) (*CheckResult, error) {
	r, err := stats.Collect(ctx, o.DB, o.Registry, stats.Params{MaxAttempts: p.MaxAttempts, StateOnly: true})
	if err != nil {
		return nil, fault.Database(err)
	}
	return p.judge(r), nil
}

func (p CheckParams) judge(r *stats.Report) *CheckResult {
	out := &CheckResult{}
	if p.NeedPublisher && len(r.Publishers) == 0 {
		out.say(LevelCritical, "no publisher is alive")
	}
	for _, s := range r.Stranded {
		out.say(LevelWarning, strandedText(s))
	}
	for _, s := range r.Pauses {
		out.say(LevelOK, safetext.Line(fmt.Sprintf("%s %s is paused by %s for %s, %s wait", s.Kind, s.Value, s.Actor, words.Seconds(r.At.Sub(s.At).Seconds()), words.Counted(s.Events, "event"))))
	}
	longest := 0.0
	for _, t := range worstTopics(r.Topics) {
		f := Figure{Name: fmt.Sprintf("topic %s has been %s for", t.Topic, t.State), Unit: "s", Value: OutageSeconds(r.At, t), Threshold: p.Outage}
		out.judge(f)
		longest = max(longest, f.Value)
	}
	for _, f := range []Figure{
		{Name: "backlog", Label: "backlog", Value: float64(r.Backlog), Threshold: p.Backlog},
		{Name: "oldest", Label: "age", Unit: "s", Value: r.OldestAgeSeconds, Threshold: p.Age},
		{Name: "dead", Label: "dead", Value: float64(r.DLQ.Open), Threshold: p.Dead},
		{Name: "at max attempts", Label: "attempt_rows", Value: float64(r.AtMaxAttempts), Threshold: p.AttemptRows},
		{Name: "parked", Label: "parked", Value: float64(r.Parked), Threshold: p.Parked},
	} {
		out.Figures = append(out.Figures, out.judge(f))
	}
	outage := Figure{Name: "topic outage", Label: "topic_outage", Unit: "s", Value: longest, Threshold: p.Outage, Level: p.Outage.Judge(longest)}
	out.Figures = append(out.Figures, outage)
	return out
}

// strandedText describes an event type that waits because every publisher leaves it to others.
func strandedText(s stats.StrandedType) string {
	return fmt.Sprintf("no publisher takes %s, and %s of it wait", safetext.Line(safetext.Cut(s.Name(), 80)), words.Counted(s.Events, "event"))
}

// judge gives a figure its level and puts it into words.
func (c *CheckResult) judge(f Figure) Figure {
	f.Level = f.Judge(f.Value)
	text := f.Name + " " + f.show(f.Value)
	switch f.Level {
	case LevelCritical:
		text += ", above " + f.show(*f.Critical)
	case LevelWarning:
		text += ", above " + f.show(*f.Warning)
	}
	c.say(f.Level, text)
	return f
}

func (c *CheckResult) say(level Level, text string) {
	c.Level = max(c.Level, level)
	if level == LevelOK {
		c.Remarks = append(c.Remarks, text)
	} else {
		c.Alarms = append(c.Alarms, text)
	}
}

func (f Figure) show(v float64) string {
	if f.Unit == "s" {
		return words.Seconds(v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// worstTopics are the topics that are not published to, each as the publisher sees it that has lost it for longest.
func worstTopics(topics []stats.TopicState) []stats.TopicState {
	sorted := slices.SortedFunc(slices.Values(topics), func(a, b stats.TopicState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), a.Since.Compare(b.Since))
	})
	return slices.CompactFunc(sorted, func(a, b stats.TopicState) bool { return a.Topic == b.Topic })
}
