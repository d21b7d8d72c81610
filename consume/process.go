package consume

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// Outcome of Process, and with it what to tell the broker.
type Outcome string

const (
	// Processed: the handler ran and the event is marked. Acknowledge.
	Processed Outcome = "processed"
	// ProcessedUnmarked: the handler ran, but the mark could not be written.
	// Acknowledge: a nack would repeat the effect for certain, an ack only if
	// the event is delivered again for another reason.
	ProcessedUnmarked Outcome = "processed_unmarked"
	// Duplicate: the event was processed before. Acknowledge.
	Duplicate Outcome = "duplicate"
	// DuplicateInbox: the inbox has the event, although Redis had forgotten it.
	// Redis knows it again. Acknowledge.
	DuplicateInbox Outcome = "duplicate_inbox"
	// InProgress: another delivery is at work. Nack, and not at once.
	InProgress Outcome = "in_progress"
	// Failed: the handler returned an error and the lease was given back. Nack.
	Failed Outcome = "failed"
	// Unavailable: Redis gave no answer, so the handler did not run, or the
	// handler's database gave none. Nack, and back off.
	Unavailable Outcome = "unavailable"
	// Invalid: the event id cannot form a key, or the message is malformed. No retry helps.
	Invalid Outcome = "malformed"
	// Ignored: a Router has no handler for the event's type. Acknowledge.
	Ignored Outcome = "ignored"
	// Returned: Run was about to end, so the message is given back untouched.
	Returned Outcome = "returned"
)

// Ack reports whether the message is finished with.
func (o Outcome) Ack() bool {
	switch o {
	case Processed, ProcessedUnmarked, Duplicate, DuplicateInbox, Ignored:
		return true
	default:
		return false
	}
}

// PanicError is a handler's panic, turned into an error so that one poisonous
// event does not take the worker with it.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// doneTries bounds how often Process asks Redis to take the done mark: a blip
// should not cost the mark, an outage should not hold the message for long.
const doneTries = 3

// Process runs handler unless the event was handled before, and returns what became of it.
// Acknowledge the message when Outcome.Ack is true, otherwise have it delivered again. The error
// explains every outcome that is not Processed or Duplicate.
//
// The handler's context is cancelled with the cause ErrLeaseLost when the
// event's lease cannot be extended, a sixth of the lease (5s) before it ends. A
// handler that stops by then does not overlap with the delivery that takes over.
func (g *Guard) Process(ctx context.Context, eventID string, handler func(context.Context) error) (Outcome, error) {
	id, err := wire.ParseID(eventID)
	if err != nil {
		return Invalid, fmt.Errorf("%w: %w", ErrEventID, err)
	}
	claim, state, err := g.Begin(ctx, id)
	switch {
	case errors.Is(err, ErrUnavailable):
		return Unavailable, err
	case err != nil:
		return Invalid, err
	case state == StateProcessed:
		return Duplicate, nil
	case state == StateProcessing:
		return InProgress, ErrInProgress
	}

	err = g.runHeld(ctx, claim, handler)
	outcome := outcomeOf(err)

	// What follows states a fact about something that already happened, so it
	// must not die with the caller's context.
	settle := context.WithoutCancel(ctx)
	if !outcome.Ack() {
		if _, abortErr := claim.Abort(settle); abortErr != nil {
			err = errors.Join(err, abortErr)
		}
		return outcome, err
	}
	for try := 1; ; try++ {
		if _, err = claim.Done(settle); err == nil {
			return outcome, nil
		}
		if try == doneTries {
			break
		}
	}
	if outcome == Processed {
		outcome = ProcessedUnmarked
	}
	return outcome, err
}

// outcomeOf is what a handler's error means.
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Processed
	case errors.Is(err, errApplied):
		return DuplicateInbox
	case errors.Is(err, ErrMalformed):
		return Invalid
	case errors.Is(err, ErrDatabaseUnavailable):
		return Unavailable
	default:
		return Failed
	}
}

// runHeld runs the handler while timers keep its lease alive.
func (g *Guard) runHeld(ctx context.Context, claim *Claim, handler func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer g.keepLease(ctx, claim, cancel)()
	return guarded(ctx, handler)
}

func guarded(ctx context.Context, handler func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return handler(ctx)
}

// keepLease extends the lease three times per lease length until the function that it returns is
// called, which waits for an extension under way: that could take the key back after an abort. When
// no extension succeeds it cancels the handler a sixth of the lease before Redis may give the event
// to another delivery, whatever the call under way does: that is the handler's time to stop.
// Timers, because most handlers end long before one fires.
func (g *Guard) keepLease(ctx context.Context, claim *Claim, cancel context.CancelCauseFunc) (end func()) {
	safe := g.opts.Lease - g.opts.Lease/6
	expiry := time.AfterFunc(time.Until(claim.asked.Add(safe)), func() {
		cancel(fmt.Errorf("%w: not extended for %s", ErrLeaseLost, safe))
	})
	var mu sync.Mutex
	var extension *time.Timer // guarded by mu, as is ended
	ended := false
	extend := func() {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		asked := time.Now()
		// The handler may outlive a cancelled caller; its lease must too.
		held, err := claim.Extend(context.WithoutCancel(ctx))
		switch {
		case err == nil && held:
			expiry.Reset(time.Until(asked.Add(safe)))
		case err == nil:
			cancel(ErrLeaseLost)
			return
		}
		extension.Reset(time.Until(asked.Add(g.opts.Lease / 3)))
	}
	mu.Lock()
	defer mu.Unlock()
	extension = time.AfterFunc(g.opts.Lease/3, extend)
	return func() {
		extension.Stop()
		mu.Lock()
		defer mu.Unlock()
		ended = true
		extension.Stop()
		expiry.Stop()
	}
}
