package consume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxRetryAfter bounds how long a message is held because its handler said so.
const maxRetryAfter = 10 * time.Minute

// Handler applies one event. Its error means that the event should come again; see also Malformed,
// RetryAfter and ErrDatabaseUnavailable.
type Handler func(context.Context, Event) error

// UnknownPolicy is what becomes of events that no handler was registered for.
type UnknownPolicy uint8

const (
	// AckUnknown acknowledges them: a topic may carry types that are for others. The first one of each
	// type is logged.
	AckUnknown UnknownPolicy = iota
	// NackUnknown gives them back, for the subscription's dead-letter policy to take.
	NackUnknown
)

// RouterOptions of a Router. The zero value means the defaults.
type RouterOptions struct {
	// Unknown is what becomes of types without a handler (default AckUnknown).
	Unknown UnknownPolicy
	// Timeout bounds each handler; 0 means no bound.
	Timeout time.Duration
	// Concurrency bounds the handlers that Run has running at once, those of messages that were held
	// back included; 0 leaves it to the Source.
	Concurrency int
	// Drain is how long Run waits for the handlers under way when it is to end (default DefaultDrain).
	Drain time.Duration
	// Log gets what was not processed; nil means slog.Default. It never gets a body.
	Log *slog.Logger
	// Wrap, unless it is nil, is put around every handler: for traces, or for metrics of the handlers.
	Wrap func(Handler) Handler
	// Observer is told what becomes of the messages.
	Observer Observer
	// Database, unless it is nil, is the outbox's: what handlers fail on is recorded there, for
	// outboxctl consumer failures, and Run says every few seconds that it runs. Its role needs what
	// outbox_emitter has. A database that is away stops nothing.
	Database DB
	// ErrorText is what is recorded of a handler's error (default Error); 1,024 bytes of it are kept.
	ErrorText func(error) string
	// Subscription is what Run receives from, for those who look.
	Subscription string
	// Ordered says that the subscription delivers the messages of an ordering key in order. Then a
	// handler that fails holds back the later ones of its key until it succeeds or the event is given
	// up.
	Ordered bool
	// MaxDeliveries is after how many deliveries the subscription's dead-letter policy takes a
	// message; 0 means that it has none. Then, and for held messages, this is also after how many
	// failures an event is given up.
	MaxDeliveries int
	// MaxAttempts gives an event up after so many failures; 0 leaves it to MaxDeliveries. An event
	// that is given up so, or that no dead-letter policy takes, is acknowledged where the outbox in
	// Database has it: outboxctl consumer retry publishes a copy.
	MaxAttempts int
}

// Observer is told what a Router does, for metrics and probes. Its functions are called by several
// goroutines at once and must return soon; each may be nil.
type Observer struct {
	// Settled is called for each try of a message, before it is acknowledged, given back or tried
	// again.
	Settled func(Delivery, Outcome, error)
	// GaveUp is called when an event is given up, with what its handler said.
	GaveUp func(Delivery, error)
	// Receiving is called by Run: with nil when it begins to receive, and with the reason when it
	// waits. That wraps ErrUnavailable, ErrDatabaseUnavailable or an error of the Source.
	Receiving func(error)
}

// Router hands each event to the handler of its type, once, through a Guard. Register every handler
// before the first message; then it is safe for concurrent use.
type Router struct {
	guard     *Guard
	opts      RouterOptions
	handlers  map[string]Handler
	others    Handler  // of types that are not in handlers; may be nil
	databases []DB     // those of HandleTx and HandleBatch
	unknown   sync.Map // the types that were logged
	failures  failures
	records   *recorder // nil: nothing is recorded
	places    chan struct{}
}

// NewRouter returns a router without handlers.
func NewRouter(guard *Guard, opts RouterOptions) *Router {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Wrap == nil {
		opts.Wrap = func(h Handler) Handler { return h }
	}
	if opts.Observer.Settled == nil {
		opts.Observer.Settled = func(Delivery, Outcome, error) {}
	}
	if opts.Observer.GaveUp == nil {
		opts.Observer.GaveUp = func(Delivery, error) {}
	}
	if opts.Observer.Receiving == nil {
		opts.Observer.Receiving = func(error) {}
	}
	opts.Drain = cmp.Or(opts.Drain, DefaultDrain)
	r := &Router{guard: guard, opts: opts, handlers: map[string]Handler{}, records: newRecorder(guard, opts)}
	if opts.Concurrency > 0 {
		r.places = make(chan struct{}, opts.Concurrency)
	}
	return r
}

// Handle registers the handler of an event type. It runs at most once at a time per event, usually
// once, more often when a worker dies on the way; a panic is an error. To register a type twice
// panics.
func (r *Router) Handle(eventType string, handler Handler) {
	if _, twice := r.handlers[eventType]; twice || eventType == "" || handler == nil {
		panic(fmt.Sprintf("consume: event type %q needs one handler", eventType))
	}
	r.handlers[eventType] = r.opts.Wrap(handler)
}

// HandleOthers registers the handler of every event type that has none of its own.
func (r *Router) HandleOthers(handler Handler) {
	if handler == nil || r.others != nil {
		panic("consume: other event types need one handler")
	}
	r.others = r.opts.Wrap(handler)
}

// HandleTx registers a handler whose effect is in a transaction: there is one effect per event,
// because a row of the table inbox_events is committed with it. The transaction is rolled back when
// the handler returns an error.
func (r *Router) HandleTx(eventType string, db DB, handler func(context.Context, pgx.Tx, Event) error) {
	r.handleIn(db, eventType, handler == nil, func(ctx context.Context, e Event) (bool, error) {
		return Once(ctx, db, r.guard.Consumer(), e.ID, func(tx pgx.Tx) error { return handler(ctx, tx, e) })
	})
}

// HandleBatch registers a handler like HandleTx's that gets the events delivered at the same time,
// in one transaction: see Batch. It is for consumers whose rate matters, and gets larger batches
// the more messages the subscriber handles at once.
func (r *Router) HandleBatch(
	eventType string, db DB, opts BatchOptions, handler func(context.Context, pgx.Tx, []Event) error,
) {
	r.handleIn(db, eventType, handler == nil, NewBatch(db, r.guard.Consumer(), opts, handler).Once)
}

// handleIn registers once, which reports whether the effect is new, as a handler with a database.
func (r *Router) handleIn(db DB, eventType string, none bool, once func(context.Context, Event) (bool, error)) {
	if db == nil || none {
		panic(fmt.Sprintf("consume: event type %q needs a database and a handler", eventType))
	}
	if !reflect.ValueOf(db).Comparable() || !slices.Contains(r.databases, db) {
		r.databases = append(r.databases, db)
	}
	r.Handle(eventType, func(ctx context.Context, e Event) error {
		applied, err := once(ctx, e)
		switch {
		case err == nil && !applied:
			return errApplied
		case err != nil && ctx.Err() == nil && databaseAway(ctx, db, err):
			return fmt.Errorf("%w: %w", ErrDatabaseUnavailable, err)
		}
		return err
	})
}

// On registers a handler that gets the event's data as a T. Data that is none is malformed; fields
// that T does not have are ignored, so that producers may add some.
func On[T any](r *Router, eventType string, handler func(context.Context, Event, T) error) {
	r.Handle(eventType, func(ctx context.Context, e Event) error {
		data, err := dataOf[T](e)
		if err != nil {
			return err
		}
		return handler(ctx, e, data)
	})
}

// OnTx is On with HandleTx's transaction: the data is a T, and what the handler writes is committed
// with the inbox row.
func OnTx[T any](r *Router, eventType string, db DB, handler func(context.Context, pgx.Tx, Event, T) error) {
	if handler == nil {
		panic(fmt.Sprintf("consume: event type %q needs a handler", eventType))
	}
	r.HandleTx(eventType, db, func(ctx context.Context, tx pgx.Tx, e Event) error {
		data, err := dataOf[T](e)
		if err != nil {
			return err
		}
		return handler(ctx, tx, e, data)
	})
}

// dataOf is the event's data as a T.
func dataOf[T any](e Event) (data T, err error) {
	if json.Unmarshal(e.Data(), &data) != nil {
		return data, Malformed(errors.New("data is not what the handler takes"))
	}
	return data, nil
}

// Malformed returns an error after which no redelivery can help: the message is given back for the
// subscription's dead-letter policy to take. The text of err should name the field and never show a
// value.
func Malformed(err error) error { return fmt.Errorf("%w: %w", ErrMalformed, err) }

// RetryAfter returns the error of a handler that wants to see the event again, and not before d has
// passed. The message is held so long, ten minutes at most, and keeps its place among those that
// the subscriber handles at once.
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
