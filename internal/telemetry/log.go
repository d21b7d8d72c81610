package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// repeatAfter is how long the same error is not repeated in the log: a database
// that is away for an hour should not fill it with ten thousand lines.
const repeatAfter = 10 * time.Second

// Log writes what a dispatcher does as log lines: published rows at debug
// (or at info, where that is asked for), failed attempts at warn, deaths at error. Durations are in
// milliseconds, and their keys say so. It never writes a payload.
type Log struct {
	log       *slog.Logger
	published slog.Level

	mu   sync.Mutex
	said map[string]time.Time
}

// NewLog makes a Log.
func NewLog(log *slog.Logger) *Log {
	return &Log{log: log, published: slog.LevelDebug, said: map[string]time.Time{}}
}

// TellPublished raises the lines of published rows to info.
func (l *Log) TellPublished() { l.published = slog.LevelInfo }

// Claimed implements dispatch.Observer.
func (l *Log) Claimed(r dispatch.ClaimReport) {
	if r.Err != nil {
		l.Trouble("claim", r.Err)
		return
	}
	l.log.Debug("claimed", "rows", r.Rows, "sweep", r.Sweep, "took_ms", milliseconds(r.Took))
}

// Published implements dispatch.Observer.
func (l *Log) Published(_ string, took time.Duration, attempts []dispatch.Attempt) {
	ctx := context.Background()
	for i := range attempts {
		a := &attempts[i]
		if !l.log.Enabled(ctx, l.level(a.Outcome)) {
			continue
		}
		fields := []slog.Attr{
			slog.String("event_id", a.Row.ID), slog.String("event_type", a.Row.EventType),
			slog.String("aggregate_type", a.Row.AggregateType), slog.String("aggregate_id", a.Row.AggregateID),
			slog.String("topic", a.Topic), slog.Int("attempt", a.Number),
		}
		if a.Err != nil {
			fields = append(fields, slog.String("error", clean(a.Err)))
		}
		if answer, ok := errors.AsType[*dispatch.Failure](a.Err); ok {
			fields = append(fields, slog.String("code", answer.Code))
		}
		var panicked interface{ Stack() []byte }
		if errors.As(a.Err, &panicked) {
			fields = append(fields, slog.String("stack", string(panicked.Stack())))
		}
		message := "released, without losing an attempt"
		switch a.Outcome {
		case dispatch.OutcomePublished:
			message, fields = "published", append(fields, slog.Float64("took_ms", milliseconds(took)))
		case dispatch.OutcomeFailed:
			message, fields = "publish failed", append(fields, slog.Float64("retry_in_ms", milliseconds(a.Delay)))
		case dispatch.OutcomeDead:
			message, fields = "event is dead", append(fields, slog.String("reason", string(a.Reason)))
		}
		l.log.LogAttrs(ctx, l.level(a.Outcome), message, fields...)
	}
}

func (l *Log) level(o dispatch.Outcome) slog.Level {
	switch o {
	case dispatch.OutcomePublished:
		return l.published
	case dispatch.OutcomeFailed:
		return slog.LevelWarn
	case dispatch.OutcomeDead:
		return slog.LevelError
	default:
		return slog.LevelDebug
	}
}

// milliseconds is a duration as logs show it.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Settled implements dispatch.Observer.
func (l *Log) Settled(r dispatch.SettleReport) {
	switch {
	case r.Err != nil:
		l.Trouble("settle", r.Err)
	case r.Lost > 0:
		l.log.Warn("lease lost: another publisher owns these events now, nothing was changed", "rows", r.Rows, "lost", r.Lost)
	default:
		l.log.Debug("settled", "rows", r.Rows, "took_ms", milliseconds(r.Took))
	}
}

// TopicChanged implements dispatch.Observer.
func (l *Log) TopicChanged(s dispatch.TopicReport) {
	at := slog.LevelWarn
	message := "topic is unreachable: the broker does not answer, its events are not claimed and keep their attempts"
	if s.Answered {
		message = "topic fails every event: those that wait keep their attempts, and one at a time is tried"
	}
	switch s.State {
	case dispatch.TopicMisconfigured:
		at = slog.LevelError
		message = "topic is misconfigured: the broker refuses it, its events are not claimed and keep their attempts"
	case dispatch.TopicRecovering:
		at, message = slog.LevelInfo, "topic answers again: one event is on trial"
	case dispatch.TopicHealthy:
		at, message = slog.LevelInfo, "topic is healthy: its events are published again"
	}
	fields := []slog.Attr{slog.String("topic", s.Topic), slog.String("state", string(s.State))}
	if s.Error != "" && s.State != dispatch.TopicRecovering {
		fields = append(fields, slog.String("code", s.Code), slog.String("error", safetext.Line(s.Error)))
	}
	l.log.LogAttrs(context.Background(), at, message, fields...)
}

// Trouble implements dispatch.Observer.
func (l *Log) Trouble(doing string, err error) {
	text := clean(err)
	l.mu.Lock()
	now := time.Now()
	repeated := now.Sub(l.said[doing]) < repeatAfter
	if !repeated {
		l.said[doing] = now
	}
	l.mu.Unlock()
	if repeated {
		l.log.Debug("cannot "+doing, "error", text)
		return
	}
	l.log.Warn("cannot "+doing, "error", text)
}

// clean is an error's text without secrets and control characters.
func clean(err error) string { return safetext.Line(safetext.Stored(err.Error())) }
