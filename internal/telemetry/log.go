package telemetry

import (
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// repeatAfter is how long the same error is not repeated in the log: a database
// that is away for an hour should not fill it with ten thousand lines.
const repeatAfter = 10 * time.Second

// Log writes what a dispatcher does as log lines: published rows at debug, failed
// attempts at warn, deaths at error. Durations are in milliseconds, and their keys
// say so. It never writes a payload.
type Log struct {
	log zerolog.Logger

	mu   sync.Mutex
	said map[string]time.Time
}

// NewLog makes a Log.
func NewLog(log zerolog.Logger) *Log { return &Log{log: log, said: map[string]time.Time{}} }

// Claimed implements dispatch.Observer.
func (l *Log) Claimed(r dispatch.ClaimReport) {
	if r.Err != nil {
		l.Trouble("claim", r.Err)
		return
	}
	l.log.Debug().Int("rows", r.Rows).Bool("sweep", r.Sweep).Dur("took_ms", r.Took).Msg("claimed")
}

// Published implements dispatch.Observer.
func (l *Log) Published(_ string, took time.Duration, attempts []dispatch.Attempt) {
	for i := range attempts {
		a := &attempts[i]
		if !l.enabled(level(a.Outcome)) {
			continue
		}
		event := l.log.WithLevel(level(a.Outcome)).Str("event_id", a.Row.ID).Str("event_type", a.Row.EventType).
			Str("aggregate_type", a.Row.AggregateType).Str("aggregate_id", a.Row.AggregateID).
			Str("topic", a.Topic).Int("attempt", a.Number)
		if a.Err != nil {
			event = event.Str("error", clean(a.Err))
		}
		var answer *dispatch.Failure
		if errors.As(a.Err, &answer) {
			event = event.Str("code", answer.Code)
		}
		switch a.Outcome {
		case dispatch.OutcomePublished:
			event.Dur("took_ms", took).Msg("published")
		case dispatch.OutcomeFailed:
			event.Dur("retry_in_ms", a.Delay).Msg("publish failed")
		case dispatch.OutcomeDead:
			event.Str("reason", string(a.Reason)).Msg("event is dead")
		case dispatch.OutcomeReleased:
			event.Msg("released, without losing an attempt")
		}
	}
}

func level(o dispatch.Outcome) zerolog.Level {
	switch o {
	case dispatch.OutcomeFailed:
		return zerolog.WarnLevel
	case dispatch.OutcomeDead:
		return zerolog.ErrorLevel
	default:
		return zerolog.DebugLevel
	}
}

func (l *Log) enabled(level zerolog.Level) bool { return level >= l.log.GetLevel() }

// Settled implements dispatch.Observer.
func (l *Log) Settled(r dispatch.SettleReport) {
	switch {
	case r.Err != nil:
		l.Trouble("settle", r.Err)
	case r.Lost > 0:
		l.log.Warn().Int("rows", r.Rows).Int("lost", r.Lost).
			Msg("lease lost: another publisher owns these events now, nothing was changed")
	default:
		l.log.Debug().Int("rows", r.Rows).Dur("took_ms", r.Took).Msg("settled")
	}
}

// TopicChanged implements dispatch.Observer.
func (l *Log) TopicChanged(s dispatch.TopicStatus) {
	event := l.log.Warn()
	message := "topic is unreachable: the broker does not answer, its events are not claimed and keep their attempts"
	switch s.State {
	case dispatch.TopicMisconfigured:
		event = l.log.Error()
		message = "topic is misconfigured: the broker refuses it, its events are not claimed and keep their attempts"
	case dispatch.TopicRecovering:
		event, message = l.log.Info(), "topic answers again: one event is on trial"
	case dispatch.TopicHealthy:
		event, message = l.log.Info(), "topic is healthy: its events are published again"
	}
	event = event.Str("topic", s.Topic).Str("state", string(s.State))
	if s.Error != "" && s.State != dispatch.TopicRecovering {
		event = event.Str("code", s.Code).Str("error", safetext.Line(s.Error))
	}
	event.Msg(message)
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
		l.log.Debug().Str("error", text).Msg("cannot " + doing)
		return
	}
	l.log.Warn().Str("error", text).Msg("cannot " + doing)
}

// clean is an error's text without secrets and control characters.
func clean(err error) string { return safetext.Line(safetext.Stored(err.Error())) }
