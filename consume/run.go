package consume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	// DefaultDrain is how long Run waits for the handlers under way when it is to end.
	DefaultDrain = 20 * time.Second

	// Run's pauses double from minRetry to maxRetry while nothing can be received.
	minRetry = 200 * time.Millisecond
	maxRetry = 5 * time.Second

	// maxParked bounds the messages that wait to be given back after their handler's place is free.
	// Those beyond it wait in their place, which slows receiving down.
	maxParked = 1_000

	// maxHeld bounds the messages of failing ordering keys that wait beside those under way. Those
	// beyond it wait in their place, which slows receiving down.
	maxHeld = 1_000
)

// Source receives messages until its context ends, calls deliver with each, several at once, and
// returns when those calls have. With Google's client:
//
//	func(ctx context.Context, deliver func(consume.Delivery)) error {
//		return subscriber.Receive(ctx, func(_ context.Context, m *pubsub.Message) {
//			deliver(consume.Delivery{Message: m, ID: m.ID, Attributes: m.Attributes, Body: m.Data, OrderingKey: m.OrderingKey})
//		})
//	}
//
// Run calls it again when it returns an error, unless that is one of Stop.
type Source func(ctx context.Context, deliver func(Delivery)) error

// Stop returns the error of a Source that ends Run: receiving again would not help.
func Stop(err error) error { return &stopError{err} }

type stopError struct{ error }

func (e *stopError) Unwrap() error { return e.error }

// Run receives and handles messages until ctx ends. It settles them as Deliver does, with these
// differences:
//
//	handler failed               given back after a pause that doubles from 100ms to 10s; others pass meanwhile
//	Malformed, no usable id      given back after a pause
//	at work elsewhere            given back after a pause
//	Redis or a database away     given back, and nothing more is received until they take writes again: an
//	                             outage costs a message one delivery, not all of them
//	failed or at work elsewhere, and RouterOptions.Ordered
//	                             not given back: it is tried again after a pause that doubles from 100ms to 5m, and
//	                             later messages of its ordering key wait until it is handled or given up; the Source
//	                             may deliver others meanwhile, which 1,000 such messages do not hinder
//
// Handlers outlive ctx, for RouterOptions.Drain at most. The error is one of Stop, or says that
// there is no handler.
func (r *Router) Run(ctx context.Context, source Source) error {
	if len(r.handlers) == 0 && r.others == nil {
		return errors.New("router has no handler")
	}
	work, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.opts.Drain, kill) })()
	defer r.beating(work)()
	retry, failed := wire.Backoff{Min: minRetry, Max: maxRetry}, 0
	for r.await(ctx) {
		began := time.Now()
		err := r.session(ctx, work, source)
		var stop *stopError
		switch {
		case errors.As(err, &stop):
			return fmt.Errorf("receive: %w", stop.error)
		case err == nil || ctx.Err() != nil:
			continue // waits for a dependency, or was told to stop
		case time.Since(began) > maxRetry:
			failed = 0
		}
		failed++
		pause := retry.Pause(failed)
		r.opts.Observer.Receiving(err)
		r.opts.Log.Error("receiving ended", "error", err.Error(), "retry_in_ms", pause.Milliseconds())
		sleep(ctx, pause)
	}
	return nil
}

// beating says that the worker runs, until the function that it returns is called.
func (r *Router) beating(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { r.records.run(ctx) })
	return func() {
		cancel()
		beats.Wait()
	}
}

// session receives until ctx ends or something is away. Nil means that this was on purpose.
func (r *Router) session(ctx, work context.Context, source Source) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.opts.Observer.Receiving(nil)
	s := &session{ctx: ctx, work: work, end: end, lanes: map[string][]Delivery{}}
	err := source(ctx, func(d Delivery) { r.receive(s, d) })
	s.later.wg.Wait()
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrUnavailable) || errors.Is(cause, ErrDatabaseUnavailable) {
		r.opts.Observer.Receiving(cause)
		r.opts.Log.Warn("paused receiving", "error", cause.Error())
	}
	if cause != nil {
		return nil
	}
	return err
}

// receive settles one message, or leaves it to a goroutine that holds its ordering key.
func (r *Router) receive(s *session, d Delivery) {
	if s.follow(d) {
		return
	}
	after, again := r.try(s, d)
	switch {
	case !again:
	case s.open(d):
		s.later.wg.Go(func() { r.hold(s, d, after) })
	default:
		r.insist(s, d, after)
	}
}

// hold tries a message until it is settled, and then those that came behind it.
func (r *Router) hold(s *session, d Delivery, after time.Duration) {
	r.insist(s, d, after)
	for next, more := s.next(d); more; next, more = s.next(d) {
		if after, again := r.try(s, next); again {
			r.insist(s, next, after)
		}
	}
}

// insist tries a message after a pause, until it is settled.
func (r *Router) insist(s *session, d Delivery, after time.Duration) {
	for again := true; again; {
		if !sleep(s.ctx, after) {
			d.Nack()
			return
		}
		after, again = r.try(s, d)
	}
}

// try has a message handled and settles it, unless it is to be tried again after a time.
func (r *Router) try(s *session, d Delivery) (after time.Duration, again bool) {
	if s.ctx.Err() != nil {
		r.settled(d, Returned, nil, returnedPause)
		s.later.nack(s.work, d, returnedPause)
		return 0, false
	}
	if r.places != nil {
		r.places <- struct{}{}
		defer func() { <-r.places }()
	}
	outcome, err := r.handle(s.work, d)
	if outcome.Ack() {
		r.acknowledge(s.work, d, outcome, err)
		return 0, false
	}
	v := r.judge(s.work, d, outcome, err)
	r.settled(d, outcome, err, v.after)
	switch {
	case v.ack:
		d.Ack()
	case outcome == Unavailable:
		s.later.nack(s.work, d, v.after)
		s.end(err)
	case r.holds(d, outcome, v):
		return v.after, true
	default:
		s.later.nack(s.ctx, d, v.after)
	}
	return 0, false
}

// session is one time that messages are received.
type session struct {
	ctx   context.Context         // it ends with the session
	work  context.Context         // it ends when a stopping Run waits no longer
	end   context.CancelCauseFunc // ends the session
	later parking

	mu sync.Mutex
	// lanes are the ordering keys whose first message is held, with what came behind it. Those
	// messages keep no place of the source: a few keys that fail would stop all others. guarded by mu.
	lanes map[string][]Delivery
	held  int // messages in all lanes, their first ones included; guarded by mu
}

func lane(d Delivery) string { return d.Subscription + "\x00" + d.OrderingKey }

// open makes a lane of a message that is held. False means that it has to wait in its place.
func (s *session) open(d Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.OrderingKey == "" || s.held >= maxHeld {
		return false
	}
	s.held++
	s.lanes[lane(d)] = nil
	return true
}

// follow puts a message behind the one of its key that is held; false where there is none. Where
// too many wait already, it waits in its place.
func (s *session) follow(d Delivery) bool {
	for asked := 1; ; asked++ {
		s.mu.Lock()
		behind, held := s.lanes[lane(d)]
		room := s.held < maxHeld || s.ctx.Err() != nil // they are given back soon
		if held && room {
			s.lanes[lane(d)] = append(behind, d)
			s.held++
		}
		s.mu.Unlock()
		if !held || room {
			return held
		}
		sleep(s.ctx, wire.Backoff{Min: time.Millisecond, Max: minRetryPause}.Pause(asked))
	}
}

// next is the message behind one that is settled, if there is one; otherwise the lane ends.
func (s *session) next(d Delivery) (next Delivery, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	behind := s.lanes[lane(d)]
	if len(behind) == 0 {
		delete(s.lanes, lane(d))
		return Delivery{}, false
	}
	s.lanes[lane(d)] = behind[1:]
	return behind[0], true
}

// parking delays nacks. Without a delay a broker hands a nacked message out
// again at once, and a message that cannot be handled yet becomes a busy loop.
type parking struct {
	count atomic.Int64
	wg    sync.WaitGroup
}

// nack nacks the message after d, or at once when ctx ends.
func (p *parking) nack(ctx context.Context, msg Message, d time.Duration) {
	later := func() {
		defer p.count.Add(-1)
		sleep(ctx, d)
		msg.Nack()
	}
	if p.count.Add(1) > maxParked {
		later()
		return
	}
	p.wg.Go(later)
}

// await returns when Redis and the databases take writes, and reports whether ctx let it. Receiving
// without them would only nack, and every nack brings a message closer to its dead-letter topic.
func (r *Router) await(ctx context.Context) bool {
	retry := wire.Backoff{Min: minRetry, Max: maxRetry}
	for failed := 1; ctx.Err() == nil; failed++ {
		err := r.guard.Announce(ctx)
		if err == nil {
			err = r.PingDatabases(ctx)
		}
		if err == nil {
			if failed > 1 {
				r.opts.Log.Info("dependencies are back")
			}
			return true
		}
		if ctx.Err() != nil {
			break
		}
		r.opts.Observer.Receiving(err)
		if failed == 1 {
			r.opts.Log.Warn("waiting for a dependency", "error", err.Error())
		}
		sleep(ctx, retry.Pause(failed))
	}
	return false
}
