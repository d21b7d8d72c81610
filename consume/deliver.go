package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
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
	// Attempt is how often it was delivered; 0 where the broker does not count, as Pub/Sub without a
	// dead-letter policy.
	Attempt int
	// Subscription is where it came from, where a Source receives from several;
	// RouterOptions.Subscription otherwise.
	Subscription string
}

// Deliver has a message handled and acknowledges it, or gives it back. It is for programs that
// receive by themselves: Run paces what fails better.
//
//	processed, handled before    acknowledged
//	no handler for the type      acknowledged, or given back with NackUnknown
//	handler failed               given back at once: the subscription's retry policy sets the pace
//	RetryAfter                   held for that long, then given back
//	Malformed, no usable id      given back, for the dead-letter policy to take
//	Redis gives no answer        as Guard.Handle; so does a database of HandleTx and HandleBatch
//
// With RouterOptions.Ordered an event with an ordering key is tried again, after a pause, before
// Deliver returns. The error explains every outcome that is not Processed, Duplicate or Ignored.
func (r *Router) Deliver(ctx context.Context, msg Message, attributes map[string]string, body []byte) (Outcome, error) {
	d := Delivery{Message: msg, Attributes: attributes, Body: body}
	for {
		outcome, err := r.guard.patiently(ctx, func() (Outcome, error) { return r.handle(ctx, d) })
		if outcome.Ack() {
			r.acknowledge(ctx, d, outcome, err)
			return outcome, err
		}
		v := r.judge(ctx, d, outcome, err)
		holds := r.holds(d, outcome, v)
		if !holds {
			v.after, _ = Delay(err)
		}
		r.settled(d, outcome, err, v.after)
		if v.ack {
			d.Ack()
			return outcome, err
		}
		if !sleep(ctx, v.after) || !holds {
			d.Nack()
			return outcome, err
		}
	}
}

// acknowledge ends a message that was handled.
func (r *Router) acknowledge(ctx context.Context, d Delivery, outcome Outcome, err error) {
	id := d.Attributes[AttrEventID]
	if r.failures.forget(id) || d.Attempt > 1 {
		if outcome != Ignored {
			r.records.recovered(ctx, id)
		}
	}
	if outcome == Processed || outcome == ProcessedUnmarked {
		r.records.done(d)
	}
	r.settled(d, outcome, err, 0)
	d.Ack()
}

// verdict is what becomes of a message that was not handled.
type verdict struct {
	after  time.Duration // until it is given back, or tried again
	gaveUp bool
	ack    bool // it is given up, and kept where an operator finds it
}

// judge counts and records what failed.
func (r *Router) judge(ctx context.Context, d Delivery, outcome Outcome, err error) verdict {
	if outcome != Failed && outcome != Invalid {
		return verdict{after: r.pauseAfter(d, outcome, err)}
	}
	v := verdict{gaveUp: outcome == Invalid || r.opts.MaxDeliveries > 0 && d.Attempt >= r.opts.MaxDeliveries}
	limit := r.opts.MaxAttempts
	if limit == 0 && r.ordered(d) {
		limit = r.opts.MaxDeliveries // a message that is held is delivered once
	}
	v.after = r.pauseAfter(d, outcome, err)
	if limit > 0 && r.failures.count(d.Attributes[AttrEventID]) >= limit {
		v.gaveUp = true
	}
	recorded, ok := r.records.failed(ctx, d, err, v.gaveUp, limit)
	// It may come again, for the dead-letter policy to take.
	first := v.gaveUp && (outcome != Invalid || d.Attempt <= 1) || !v.gaveUp && recorded.gaveUp && recorded.attempts == limit
	v.gaveUp = v.gaveUp || recorded.gaveUp
	// What a dead-letter policy takes is given back for it. The others are safe where a copy can be
	// published: a message that is never acknowledged would hold up what is behind it, or be tried
	// although it was given up.
	v.ack = ok && v.gaveUp && recorded.kept && (r.opts.MaxDeliveries == 0 || r.ordered(d) || r.opts.MaxAttempts > 0 && outcome == Failed)
	if first {
		r.opts.Observer.GaveUp(d, err)
	}
	if v.gaveUp {
		r.failures.restart(d.Attributes[AttrEventID]) // an operator may have it tried again
	}
	return v
}

// ordered reports whether later messages wait for this one.
func (r *Router) ordered(d Delivery) bool {
	return r.opts.Ordered && (d.OrderingKey != "" || d.Attributes[wire.AttrEventSeq] != "")
}

// holds reports whether the message keeps its place, and with it those behind it, until it is
// handled or given up. Given back it would be overtaken by what was delivered already.
func (r *Router) holds(d Delivery, outcome Outcome, v verdict) bool {
	return r.ordered(d) && !v.gaveUp && (outcome == Failed || outcome == InProgress)
}

// handle runs the event's handler unless the event was handled before.
func (r *Router) handle(ctx context.Context, d Delivery) (Outcome, error) {
	e, err := ParseEvent(d.Attributes, d.Body)
	if err != nil {
		return Invalid, err
	}
	e.OrderingKey, e.Attempt = d.OrderingKey, max(d.Attempt, r.failures.count(d.Attributes[AttrEventID])+1)
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
	maxHeldPause      = 5 * time.Minute // of a message that holds others back
	maxMalformedPause = time.Second
	inProgressPause   = time.Second

	// returnedPause is for messages that come while receiving ends. Given back at
	// once they would come again and again until the last stream is closed, and
	// each time counts towards the dead-letter policy.
	returnedPause = 500 * time.Millisecond

	// uncountedPause is for malformed messages of a subscription without a dead-letter policy: they
	// stay until it gets one or they expire, so they are looked at rarely.
	uncountedPause = 30 * time.Second
)

// pauseAfter is how long a message waits before it is given back. Without a pause the broker hands
// it out again at once.
func (r *Router) pauseAfter(d Delivery, outcome Outcome, err error) time.Duration {
	if outcome == Failed {
		// Pub/Sub counts deliveries only on a subscription with a dead-letter policy.
		failed := r.failures.add(d.Attributes[AttrEventID])
		if after, told := Delay(err); told {
			return after
		}
		if r.ordered(d) {
			return growing(maxHeldPause).Pause(failed)
		}
		return growing(maxFailedPause).Pause(max(d.Attempt, failed))
	}
	switch {
	case outcome == InProgress:
		return pauseWhileHeld(d.Attempt, r.guard.Lease())
	case outcome == Invalid && d.Attempt == 0:
		return uncountedPause
	case outcome == Invalid:
		return growing(maxMalformedPause).Pause(d.Attempt)
	default:
		return returnedPause
	}
}

// pauseWhileHeld is for a message whose event another delivery holds. That one is usually about to
// finish. But when its worker was killed, the event stays taken for the rest of the lease, and
// every delivery in the meantime counts towards the dead-letter policy: so only the first comes
// back soon, and the next outlasts the lease.
func pauseWhileHeld(attempt int, lease time.Duration) time.Duration {
	if attempt <= 1 {
		return inProgressPause
	}
	return lease
}

func growing(limit time.Duration) wire.Backoff { return wire.Backoff{Min: minRetryPause, Max: limit} }

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

// count is how many there were.
func (f *failures) count(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.recent[id], f.older[id])
}

// forget ends the count of an event that is settled, and reports whether there was one.
func (f *failures) forget(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, recent := f.recent[id]
	_, older := f.older[id]
	delete(f.recent, id)
	delete(f.older, id)
	return recent || older
}

// restart counts the failures of an event from 0 on.
func (f *failures) restart(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.older, id)
	if f.recent == nil {
		f.recent = map[string]int{}
	}
	f.recent[id] = 0
}
