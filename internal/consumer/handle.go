package consumer

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/outboxctl/outboxctl/consume"
)

// Pauses before a nack. A subscription with a retry policy adds its own.
const (
	failedPauseBase    = 100 * time.Millisecond
	failedPauseMax     = 10 * time.Second
	malformedPauseBase = 100 * time.Millisecond
	malformedPauseMax  = time.Second
	inProgressPause    = time.Second

	// returnedPause is for messages that come while receiving ends. Given back at
	// once they would come again and again until the last stream is closed, and
	// each time counts towards the dead-letter policy.
	returnedPause = 500 * time.Millisecond

	// uncountedPause is for malformed messages of a subscription without a
	// dead-letter policy: they stay until it gets one or they expire, so they
	// are looked at rarely.
	uncountedPause = 30 * time.Second
)

// handle settles one message. ctx ends with the session, work when a stopping
// worker waits no longer; pause ends the session.
func (w *Worker) handle(ctx, work context.Context, pause context.CancelCauseFunc, msg *pubsub.Message) {
	done := w.enter(msg)
	defer done()
	if ctx.Err() != nil || !w.reserve() {
		w.metrics.messages.WithLabelValues(outcomeReturned).Inc()
		w.parking.nack(work, msg, returnedPause)
		return
	}
	outcome, err := w.process(work, msg)
	if ack := w.count(outcome); ack {
		msg.Ack()
		w.failures.forget(msg.ID)
		w.acknowledged(outcome, msg, err)
		return
	}
	w.totals.reserved.Add(-1)
	w.giveBack(ctx, work, pause, msg, outcome, err)
}

// process decides what becomes of the message.
func (w *Worker) process(work context.Context, msg *pubsub.Message) (string, error) {
	parsed, err := consume.ParseEvent(msg.Attributes, msg.Data)
	if err != nil {
		return outcomeMalformed, err
	}
	event := Event{parsed, msg.OrderingKey}
	handler := w.cfg.Handlers[event.Type]
	if handler == nil {
		handler = w.cfg.Any
	}
	if handler == nil {
		return outcomeIgnored, nil
	}
	work, cancel := context.WithTimeout(work, w.cfg.HandlerTimeout)
	defer cancel()
	appliedBefore := false
	outcome, err := w.guard.Process(work, event.ID.String(), func(ctx context.Context) error {
		w.cfg.Hooks.AfterBegin(event.ID)
		err := handler(ctx, event)
		switch {
		case err == nil:
			w.metrics.applied(event, time.Now())
			w.cfg.Hooks.AfterEffect(event.ID)
		case errors.Is(err, ErrApplied):
			appliedBefore = true
			return nil // Redis had forgotten; the mark is written again
		case ctx.Err() == nil && w.pool != nil && databaseAway(err):
			return &awayError{dependencyDatabase, err}
		}
		return err
	})
	if outcome == consume.Unavailable {
		err = &awayError{dependencyRedis, err}
	}
	if outcome == consume.Processed {
		w.cfg.Hooks.AfterDone(event.ID)
	}
	return label(outcome, appliedBefore, err), err
}

// label turns the guard's outcome into the worker's.
func label(outcome consume.Outcome, appliedBefore bool, err error) string {
	var away *awayError
	switch {
	case appliedBefore && outcome.Ack():
		return outcomeInbox
	case errors.Is(err, consume.ErrMalformed), outcome == consume.Invalid:
		return outcomeMalformed
	case errors.As(err, &away):
		return outcomeAway
	default:
		return string(outcome)
	}
}

// count counts the outcome and reports whether it finishes the message.
func (w *Worker) count(outcome string) (ack bool) {
	w.metrics.messages.WithLabelValues(outcome).Inc()
	t := &w.totals
	switch outcome {
	case outcomeProcessed, outcomeUnmarked:
		t.processed.Add(1)
	case outcomeDuplicate, outcomeInbox:
		t.duplicates.Add(1)
	case outcomeIgnored:
		t.ignored.Add(1)
	case outcomeMalformed:
		t.malformed.Add(1)
		return false
	case outcomeFailed:
		t.failed.Add(1)
		return false
	default:
		return false
	}
	return true
}

// acknowledged logs and, at the last message of Count, ends Run.
func (w *Worker) acknowledged(outcome string, msg *pubsub.Message, err error) {
	event := w.cfg.Log.Debug()
	if outcome == outcomeUnmarked {
		event = w.cfg.Log.Warn().Err(err)
	}
	fields(event, msg).Str("outcome", outcome).Msg("event settled")
	if n := w.totals.acked.Add(1); w.cfg.Count > 0 && n == w.cfg.Count {
		w.finish(errFinished)
	}
}

// giveBack nacks a message that is not finished, at a pace that suits why.
func (w *Worker) giveBack(ctx, work context.Context, pause context.CancelCauseFunc, msg *pubsub.Message, outcome string, err error) {
	attempt := 0
	if msg.DeliveryAttempt != nil {
		attempt = *msg.DeliveryAttempt
	}
	switch outcome {
	case outcomeAway:
		w.parking.nack(work, msg, returnedPause)
		pause(err)
	case outcomeInProgress:
		fields(w.cfg.Log.Debug(), msg).Str("outcome", outcome).Msg("event given back")
		w.parking.nack(ctx, msg, pauseWhileHeld(attempt, w.guard.Lease()))
	case outcomeMalformed:
		delay := uncountedPause
		if attempt > 0 {
			delay = pauseFor(malformedPauseBase, malformedPauseMax, attempt)
		}
		fields(w.cfg.Log.Error().Err(err), msg).Int("delivery_attempt", attempt).Msg("malformed message given back for the dead-letter policy")
		w.parking.nack(ctx, msg, delay)
	default:
		failed := w.failures.add(msg.ID)
		if attempt == 0 {
			attempt = failed
		}
		delay, told := consume.Delay(err)
		if !told {
			delay = pauseFor(failedPauseBase, failedPauseMax, attempt)
		}
		entry := fields(w.cfg.Log.Warn().Err(err), msg)
		var panicked *consume.PanicError
		if errors.As(err, &panicked) {
			entry = entry.Bytes("stack", panicked.Stack)
		}
		entry.Int("delivery_attempt", attempt).Dur("retry_in_ms", delay).Msg("handler failed")
		w.parking.nack(ctx, msg, delay)
	}
}
