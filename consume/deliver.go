package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Delivery is one message on its way to a handler.
type Delivery struct {
	// Message acknowledges it or gives it back, after Deliver has returned too.
	Message
	Attributes map[string]string
	Body       []byte
	// ID is the broker's, for the log; it may be empty.
	ID string
	// OrderingKey is what the message keeps its order in; empty for most.
	OrderingKey string
	// Attempt is how often it was delivered; 0 where the broker does not count, as Pub/Sub without a dead-letter policy.
	Attempt int
}

// Deliver has a message handled and acknowledges it, or gives it back. It is for programs that receive by themselves:
// Run paces what fails better.
//
//	processed, handled before    acknowledged
//	no handler for the type      acknowledged, or given back with NackUnknown
//	handler failed               given back at once: the subscription's retry policy sets the pace
//	RetryAfter                   held for that long, then given back
//	Malformed, no usable id      given back, for the dead-letter policy to take
//	Redis gives no answer        as Guard.Handle; so does a database of HandleTx and HandleBatch
//
// The error explains every outcome that is not Processed, Duplicate or Ignored.
func (r *Router) Deliver(ctx context.Context, msg Message, attributes map[string]string, body []byte) (Outcome, error) {
	d := Delivery{Message: msg, Attributes: attributes, Body: body}
	outcome, err := r.guard.patiently(ctx, func() (Outcome, error) { return r.handle(ctx, d) })
	after, _ := Delay(err)
	r.settled(d, outcome, err, after)
	if outcome.Ack() {
		msg.Ack()
	} else {
		sleep(ctx, after)
		msg.Nack()
	}
	return outcome, err
}

// handle runs the event's handler unless the event was handled before.
func (r *Router) handle(ctx context.Context, d Delivery) (Outcome, error) {
	e, err := ParseEvent(d.Attributes, d.Body)
	if err != nil {
		return Invalid, err
	}
	e.OrderingKey, e.Attempt = d.OrderingKey, d.Attempt
	handler := r.handlers[e.Type]
	if handler == nil {
		handler = r.others
	}
	if handler == nil {
		return r.ignore(e)
	}
	if r.opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.opts.Timeout)
		defer cancel()
	}
	return r.guard.Process(ctx, e.ID.String(), func(ctx context.Context) error { return handler(ctx, e) })
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

// settled tells the observer and the log what becomes of a message.
func (r *Router) settled(d Delivery, outcome Outcome, err error, after time.Duration) {
	r.opts.Observer.Settled(d, outcome, err)
	level, text := slog.LevelDebug, "event given back"
	switch outcome {
	case Invalid:
		level, text = slog.LevelError, "malformed message given back for the dead-letter policy"
	case Failed:
		level, text = slog.LevelWarn, "handler failed"
	case Unavailable:
		level = slog.LevelWarn
	case ProcessedUnmarked:
		level, text = slog.LevelWarn, "event settled"
	case Processed, Duplicate, DuplicateInbox, Ignored:
		text = "event settled"
	}
	if !r.opts.Log.Enabled(context.Background(), level) {
		return
	}
	fields := []slog.Attr{
		slog.String("event_id", d.Attributes[AttrEventID]), slog.String("event_type", d.Attributes[AttrEventType]),
		slog.String("aggregate_id", d.Attributes[AttrAggregateID]), slog.String("message_id", d.ID),
		slog.String("outcome", string(outcome)),
	}
	if err != nil {
		fields = append(fields, slog.String("error", err.Error()))
	}
	if !outcome.Ack() {
		fields = append(fields, slog.Int("delivery_attempt", d.Attempt), slog.Int64("retry_in_ms", after.Milliseconds()))
	}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		fields = append(fields, slog.String("stack", string(panicked.Stack)))
	}
	r.opts.Log.LogAttrs(context.Background(), level, text, fields...)
}

// Pauses before Run gives a message back. A subscription with a retry policy adds its own.
const (
	minRetryPause     = 100 * time.Millisecond
	maxFailedPause    = 10 * time.Second
	maxMalformedPause = time.Second
	inProgressPause   = time.Second

	// returnedPause is for messages that come while receiving ends. Given back at
	// once they would come again and again until the last stream is closed, and
	// each time counts towards the dead-letter policy.
	returnedPause = 500 * time.Millisecond

	// uncountedPause is for malformed messages of a subscription without a
	// dead-letter policy: they stay until it gets one or they expire, so they
	// are looked at rarely.
	uncountedPause = 30 * time.Second
)

// pauseAfter is how long a message waits before it is given back. Without a pause the broker hands it out again at once.
func (r *Router) pauseAfter(d Delivery, outcome Outcome, err error) time.Duration {
	if outcome == Failed {
		// Pub/Sub counts deliveries only on a subscription with a dead-letter policy.
		failed := r.failures.add(d.Attributes[AttrEventID])
		if after, told := Delay(err); told {
			return after
		}
		return growing(maxFailedPause, max(d.Attempt, failed))
	}
	switch {
	case outcome == InProgress:
		return pauseWhileHeld(d.Attempt, r.guard.Lease())
	case outcome == Invalid && d.Attempt == 0:
		return uncountedPause
	case outcome == Invalid:
		return growing(maxMalformedPause, d.Attempt)
	default:
		return returnedPause
	}
}

// pauseWhileHeld is for a message whose event another delivery holds. That one
// is usually about to finish. But when its worker was killed, the event stays
// taken for the rest of the lease, and every delivery in the meantime counts
// towards the dead-letter policy: so only the first comes back soon, and the
// next outlasts the lease.
func pauseWhileHeld(attempt int, lease time.Duration) time.Duration {
	if attempt <= 1 {
		return inProgressPause
	}
	return lease
}

// growing doubles from minRetryPause with each attempt.
func growing(limit time.Duration, attempt int) time.Duration {
	d := minRetryPause
	for range attempt - 1 {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}

// maxFailures bounds how many events failures remembers at least; twice as many at most.
const maxFailures = 10_000

// failures counts the failed deliveries of each event.
type failures struct {
	mu            sync.Mutex
	recent, older map[string]int // guarded by mu
}

// add counts a failure and returns how many there were. What failed longest ago is forgotten first.
func (f *failures) add(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := max(f.recent[id], f.older[id]) + 1
	if f.recent == nil || len(f.recent) >= maxFailures {
		f.recent, f.older = map[string]int{}, f.recent
	}
	f.recent[id] = n
	return n
}

// forget ends the count of an event that is settled.
func (f *failures) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.recent, id)
	delete(f.older, id)
}
