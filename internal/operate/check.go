package operate

import (
	"context"

	"github.com/outboxctl/outboxctl/internal/stats"
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
	// Backlog, Dead and AttemptRows count rows; Age is in seconds.
	Backlog, Age, Dead, AttemptRows Threshold
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
	// Topics are those that a live publisher does not publish to.
	Topics []stats.TopicState
	// NoPublisher is set when a publisher is needed and none is alive.
	NoPublisher bool
}

// Check judges the state of the outbox.
func (o *Outbox) Check(ctx context.Context, p CheckParams) (*CheckResult, error) {
	r, err := stats.Collect(ctx, o.DB, o.Registry, stats.Params{MaxAttempts: p.MaxAttempts, StateOnly: true})
	if err != nil {
		return nil, StoreError(err)
	}
	return p.judge(r), nil
}

func (p CheckParams) judge(r *stats.Report) *CheckResult {
	out := &CheckResult{Topics: r.Topics, NoPublisher: p.NeedPublisher && len(r.Publishers) == 0}
	for _, f := range []Figure{
		{Name: "backlog", Label: "backlog", Value: float64(r.Backlog), Threshold: p.Backlog},
		{Name: "oldest", Label: "age", Unit: "s", Value: r.OldestAgeSeconds, Threshold: p.Age},
		{Name: "dead", Label: "dead", Value: float64(r.DLQ.Open), Threshold: p.Dead},
		{Name: "at max attempts", Label: "attempt_rows", Value: float64(r.AtMaxAttempts), Threshold: p.AttemptRows},
	} {
		f.Level = f.Judge(f.Value)
		out.Level = max(out.Level, f.Level)
		out.Figures = append(out.Figures, f)
	}
	if out.NoPublisher {
		out.Level = LevelCritical
	}
	return out
}
