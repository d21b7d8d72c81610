package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

// Level is a verdict. Its value is the exit code of a Nagios plugin.
type Level int

// The verdicts, from good to bad.
const (
	OK Level = iota
	Warning
	Critical
)

func (l Level) String() string {
	return [...]string{OK: "OK", Warning: "WARNING", Critical: "CRITICAL"}[l]
}

// A Threshold raises an alarm when a figure is above it. A nil limit raises none.
type Threshold struct{ Warning, Critical *float64 }

// ParseThreshold reads CRITICAL or WARNING,CRITICAL, each a number as figure reads it: Count or
// Seconds.
func ParseThreshold(text string, figure func(string) (float64, error)) (t Threshold, err error) {
	read := func(text string) *float64 {
		n, wrong := figure(strings.TrimSpace(text))
		err = cmp.Or(err, wrong)
		return &n
	}
	warning, critical, both := strings.Cut(text, ",")
	if !both {
		t.Critical = read(text)
		return t, err
	}
	t.Critical, t.Warning = read(critical), read(warning)
	if err == nil && *t.Warning > *t.Critical {
		err = errors.New("the warning is above the critical value")
	}
	return t, err
}

// Count reads a number of rows.
func Count(text string) (float64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not a count", text)
	}
	return float64(n), nil
}

// Seconds reads a length of time.
func Seconds(text string) (float64, error) {
	d, err := words.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("must not be negative")
	}
	return d.Seconds(), err
}

// Judge compares a figure with the threshold.
func (t Threshold) Judge(value float64) Level {
	switch {
	case t.Critical != nil && value > *t.Critical:
		return Critical
	case t.Warning != nil && value > *t.Warning:
		return Warning
	default:
		return OK
	}
}

// Params are the limits that Run judges by.
type Params struct {
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

// Result is the verdict and what led to it.
type Result struct {
	Level   Level
	Figures []Figure
	// Alarms name what is above its threshold, Remarks everything else.
	Alarms, Remarks []string
}

// Run judges the state of the outbox.
func Run(ctx context.Context, db stats.DB, catalogue stats.Catalogue, p Params) (*Result, error) {
	r, err := stats.Collect(ctx, db, catalogue,
		stats.Params{MaxAttempts: p.MaxAttempts, StateOnly: true})
	if err != nil {
		return nil, err
	}
	out := p.judge(r)
	out.addConsumers(r.Consumers)
	return out, nil
}

// addConsumers says which consumers fail. What they gave up needs a person.
func (c *Result) addConsumers(all []stats.Consumer) {
	for _, f := range all {
		if f.Failing > 0 {
			c.say(OK, safetext.Line(fmt.Sprintf("consumer %s fails on %s", f.Consumer, words.Counted(f.Failing, "event"))))
		}
		if f.GaveUp > 0 {
			c.say(Warning, safetext.Line(fmt.Sprintf("consumer %s gave up %s", f.Consumer, words.Counted(f.GaveUp, "event"))))
		}
	}
}

func (p Params) judge(r *stats.Report) *Result {
	out := &Result{}
	if p.NeedPublisher && len(r.Publishers) == 0 {
		out.say(Critical, "no publisher is alive")
	}
	for _, s := range r.Stranded {
		out.say(Warning, s.String())
	}
	for _, s := range r.Pauses {
		out.say(OK, safetext.Line(fmt.Sprintf("%s %s is paused by %s for %s, %s wait", s.Kind, s.Value,
			s.Actor, words.Seconds(r.At.Sub(s.At).Seconds()), words.Counted(s.Events, "event"))))
	}
	longest := 0.0
	for _, t := range worstTopics(r.Topics) {
		f := Figure{Name: fmt.Sprintf("topic %s has been %s for", t.Topic, t.State), Unit: "s",
			Value: t.OutageSeconds(r.At), Threshold: p.Outage}
		out.judge(f)
		longest = max(longest, f.Value)
	}
	for _, f := range []Figure{
		{Name: "backlog", Label: "backlog", Value: float64(r.Backlog), Threshold: p.Backlog},
		{Name: "oldest", Label: "age", Unit: "s", Value: r.OldestAgeSeconds, Threshold: p.Age},
		{Name: "dead", Label: "dead", Value: float64(r.DLQ.Open), Threshold: p.Dead},
		{Name: "at max attempts", Label: "attempt_rows", Value: float64(r.AtMaxAttempts),
			Threshold: p.AttemptRows},
		{Name: "parked", Label: "parked", Value: float64(r.Parked), Threshold: p.Parked},
	} {
		out.Figures = append(out.Figures, out.judge(f))
	}
	outage := Figure{Name: "topic outage", Label: "topic_outage", Unit: "s", Value: longest,
		Threshold: p.Outage, Level: p.Outage.Judge(longest)}
	out.Figures = append(out.Figures, outage)
	return out
}

// judge gives a figure its level and puts it into words.
func (c *Result) judge(f Figure) Figure {
	f.Level = f.Judge(f.Value)
	text := f.Name + " " + f.show(f.Value)
	switch f.Level {
	case Critical:
		text += ", above " + f.show(*f.Critical)
	case Warning:
		text += ", above " + f.show(*f.Warning)
	}
	c.say(f.Level, text)
	return f
}

func (c *Result) say(level Level, text string) {
	c.Level = max(c.Level, level)
	if level == OK {
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

// worstTopics are the topics that are not published to, each as the publisher sees it that has lost
// it for longest.
func worstTopics(topics []stats.TopicState) []stats.TopicState {
	sorted := slices.SortedFunc(slices.Values(topics), func(a, b stats.TopicState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), a.Since.Compare(b.Since))
	})
	return slices.CompactFunc(sorted, func(a, b stats.TopicState) bool { return a.Topic == b.Topic })
}
