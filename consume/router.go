package consume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxRetryAfter bounds how long a message is held because its handler said so.
const maxRetryAfter = 10 * time.Minute

// UnknownPolicy is what becomes of events that no handler was registered for.
type UnknownPolicy uint8

const (
	// AckUnknown acknowledges them: a topic may carry types that are for others. The first one of each type is logged.
	AckUnknown UnknownPolicy = iota
	// NackUnknown gives them back, for the subscription's dead-letter policy to take.
	NackUnknown
)

// RouterOptions of a Router. The zero value means the defaults.
type RouterOptions struct {
	// Unknown is what becomes of types without a handler (default AckUnknown).
	Unknown UnknownPolicy
	// Log gets what was not processed; nil means slog.Default. It never gets a body.
	Log *slog.Logger
}

// Router hands each event to the handler of its type, once, through a Guard. Register every handler before the first
// Deliver; then it is safe for concurrent use.
type Router struct {
	guard    *Guard
	opts     RouterOptions
	handlers map[string]func(context.Context, Event) error
	unknown  sync.Map // the types that were logged
}

// NewRouter returns a router without handlers.
func NewRouter(guard *Guard, opts RouterOptions) *Router {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	return &Router{guard: guard, opts: opts, handlers: map[string]func(context.Context, Event) error{}}
}

// Handle registers the handler of an event type. It runs at most once at a time per event, usually once, more often when
// a worker dies on the way; a panic is an error. To register a type twice panics.
func (r *Router) Handle(eventType string, handler func(context.Context, Event) error) {
	if _, twice := r.handlers[eventType]; twice || eventType == "" || handler == nil {
		panic(fmt.Sprintf("consume: event type %q needs one handler", eventType))
	}
	r.handlers[eventType] = handler
}

// HandleTx registers a handler whose effect is in a transaction: there is one effect per event, because a row of the
// table inbox_events is committed with it. The transaction is rolled back when the handler returns an error.
func (r *Router) HandleTx(eventType string, db DB, handler func(context.Context, pgx.Tx, Event) error) {
	if db == nil || handler == nil {
		panic(fmt.Sprintf("consume: event type %q needs a database and a handler", eventType))
	}
	r.Handle(eventType, func(ctx context.Context, e Event) error {
		return appliedError(Once(ctx, db, r.guard.Consumer(), e.ID, func(tx pgx.Tx) error { return handler(ctx, tx, e) }))
	})
}

// HandleBatch registers a handler like HandleTx's that gets the events delivered at the same time, in one transaction: see
// Batch. It is for consumers whose rate matters, and gets larger batches the more messages the subscriber handles at once.
func (r *Router) HandleBatch(eventType string, db DB, opts BatchOptions, handler func(context.Context, pgx.Tx, []Event) error) {
	if db == nil || handler == nil {
		panic(fmt.Sprintf("consume: event type %q needs a database and a handler", eventType))
	}
	batch := NewBatch(db, r.guard.Consumer(), opts, handler)
	r.Handle(eventType, func(ctx context.Context, e Event) error { return appliedError(batch.Once(ctx, e)) })
}

// On registers a handler that gets the event's data as a T. Data that is none is malformed; fields that T does not have
// are ignored, so that producers may add some.
func On[T any](r *Router, eventType string, handler func(context.Context, Event, T) error) {
	r.Handle(eventType, func(ctx context.Context, e Event) error {
		var data T
		if err := json.Unmarshal(e.Data(), &data); err != nil {
			return Malformed(errors.New("data is not what the handler takes"))
		}
		return handler(ctx, e, data)
	})
}

// Deliver has a message handled and acknowledges it, or gives it back:
//
//	processed, handled before    acknowledged
//	no handler for the type      acknowledged, or given back with NackUnknown
//	handler failed               given back at once: the subscription's retry policy sets the pace
//	RetryAfter                   held for that long, then given back
//	Malformed, no usable id      given back, for the dead-letter policy to take
//	Redis gives no answer        as Guard.Handle
//
// The error explains every outcome that is not Processed, Duplicate or Ignored.
func (r *Router) Deliver(ctx context.Context, msg Message, attributes map[string]string, body []byte) (Outcome, error) {
	outcome, err := r.route(ctx, attributes, body)
	if outcome.Ack() {
		msg.Ack()
	} else {
		if after, ok := Delay(err); ok {
			pause(ctx, after)
		}
		msg.Nack()
	}
	if outcome != Processed && outcome != Duplicate && outcome != Ignored {
		r.opts.Log.Warn("event not settled as usual", "event_id", attributes[AttrEventID], "event_type", attributes[AttrEventType], "outcome", outcome, "error", err)
	}
	return outcome, err
}

func (r *Router) route(ctx context.Context, attributes map[string]string, body []byte) (Outcome, error) {
	e, err := ParseEvent(attributes, body)
	if err != nil {
		return Invalid, err
	}
	handler, known := r.handlers[e.Type]
	if !known {
		return r.ignore(e)
	}
	before := false
	outcome, err := r.guard.settle(ctx, e.ID.String(), func(ctx context.Context) error {
		err := handler(ctx, e)
		if before = errors.Is(err, errApplied); before {
			return nil // Redis had forgotten; the mark is written again
		}
		return err
	})
	switch {
	case outcome == Processed && before:
		return Duplicate, nil
	case outcome == Failed && errors.Is(err, ErrMalformed):
		return Invalid, err
	}
	return outcome, err
}

func (r *Router) ignore(e Event) (Outcome, error) {
	if r.opts.Unknown == NackUnknown {
		return Failed, fmt.Errorf("no handler for event type %q", e.Type)
	}
	if _, said := r.unknown.LoadOrStore(e.Type, true); !said {
		r.opts.Log.Info("acknowledging events of a type without a handler", "event_type", e.Type)
	}
	return Ignored, nil
}

// errApplied is a handler's answer that an earlier delivery has had the effect.
var errApplied = errors.New("event was applied before")

func appliedError(applied bool, err error) error {
	if err == nil && !applied {
		return errApplied
	}
	return err
}

// Malformed returns an error after which no redelivery can help: the message is given back for the subscription's dead-letter policy to
// take. The text of err should name the field and never show a value.
func Malformed(err error) error { return fmt.Errorf("%w: %w", ErrMalformed, err) }

// RetryAfter returns the error of a handler that wants to see the event again, and not before d has passed. The message is held so long,
// ten minutes at most, and keeps its place among those that the subscriber handles at once.
func RetryAfter(d time.Duration) error { return &retryAfterError{d} }

// Delay returns how long an error of RetryAfter asks to wait.
func Delay(err error) (after time.Duration, ok bool) {
	var later *retryAfterError
	if !errors.As(err, &later) {
		return 0, false
	}
	return min(later.after, maxRetryAfter), true
}

type retryAfterError struct{ after time.Duration }

func (e *retryAfterError) Error() string {
	return fmt.Sprintf("to be delivered again after %s", e.after)
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
