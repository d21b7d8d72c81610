package dispatch

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// unusedPolls is how much rarer than the plain stream the ordered one looks by itself
// while it has never met a key. Claims of the plain stream tell it of rows behind its
// hint, so where keys are not used it costs next to nothing.
const unusedPolls = 10

// lead is the loop of a stream. That of the plain stream alone decides when the outbox
// is idle.
func (s *stream) lead(ctx context.Context) error {
	pace := pacer{poll: s.cfg.PollInterval, random: s.cfg.Random}
	var r turnResult
	woken := false
	for ctx.Err() == nil {
		if !s.ordered() {
			s.beat()
		}
		r = s.turn(ctx, s.mayBeEmpty(r, &pace, woken))
		if r.more { // the ordered stream has no helpers
			for range s.cfg.Workers - 1 {
				signal(s.helpers)
			}
		}
		wait := pace.next(r)
		if s.cfg.Once {
			if done, err := s.drained(ctx, r, &pace); done {
				return err
			}
		}
		if s.ordered() && pace.idle() && s.cursor.blind() {
			wait *= unusedPolls
		}
		woken = s.rest(ctx, wait, pace.idle())
	}
	return nil
}

// mayBeEmpty reports whether a turn that follows should look before it claims: in the
// plain stream on an idle outbox, in the ordered one unless rows are known of.
func (s *stream) mayBeEmpty(before turnResult, pace *pacer, woken bool) bool {
	if s.ordered() {
		return !before.more && !s.keys.looks()
	}
	return pace.idle() && !woken
}

// turn claims, or first looks whether there is anything: a look is one plain query.
func (s *stream) turn(ctx context.Context, look bool) turnResult {
	if look {
		if r, due := s.look(); !due {
			return r
		}
	}
	return s.claimAndSend(ctx, false)
}

// look reports whether a claim would find anything, and what a turn that ends with the look did.
func (s *stream) look() (r turnResult, due bool) {
	ctx, cancel := context.WithTimeout(s.abandon, claimTimeout)
	defer cancel()
	p := ClaimParams{Ordered: s.ordered()}
	c, at := s.aim(&p, false)
	due, keyed, err := s.store.Due(ctx, p)
	r.err = err
	if keyed {
		s.orderedStream.nudge()
	}
	switch {
	case err != nil:
		s.observe.Trouble("look for due rows", err)
		c.failed(at, time.Now(), s.endAfter(at, c))
	case due:
		c.found(at)
	default:
		r.further = at.short()
		c.done(at, time.Now(), false, 0, 0)
		s.startSomewhere(at)
	}
	return r, due && err == nil
}

// drainProbes is how many probes a run with Once waits for where a topic has just failed: 3.75 s.
const drainProbes = 4

// drained decides whether a run with Once is over: nothing was found, what was
// in flight is settled, and a sweep after that finds nothing either. A topic
// that has just failed gets a moment to come back; an outage is not waited
// for.
func (s *stream) drained(ctx context.Context, r turnResult, pace *pacer) (bool, error) {
	if r.err != nil {
		return pace.gaveUp(), r.err
	}
	if r.rows > 0 || r.further || ctx.Err() != nil {
		return false, nil
	}
	s.groups.wait()
	if s.rates.holding() {
		_ = wait.For(ctx, pollMin)
		return false, nil
	}
	for asked := 1; !s.breakers.healthy() && asked <= drainProbes && ctx.Err() == nil; asked++ {
		_ = wait.For(ctx, wire.Backoff{Min: probeMin, Max: probeMax}.Pause(asked))
	}
	s.cursor.restart()
	for ctx.Err() == nil {
		again := s.claimAndSend(ctx, true)
		if again.err != nil || again.rows > 0 {
			return false, nil
		}
		if again.swept {
			return true, nil
		}
		_ = wait.For(ctx, pollMin) // a helper sweeps, or this was a part of it
	}
	return false, nil
}

// help is a loop that joins in while claims come back full, until the leader is
// done.
func (s *stream) help(ctx context.Context, drained <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-drained:
			return nil
		case <-s.helpers:
		}
		for ctx.Err() == nil {
			if r := s.claimAndSend(ctx, false); r.err != nil || !r.more {
				break
			}
		}
	}
}

// rest waits, or returns earlier at a hint that there may be something to claim, and
// reports whether there was one.
func (s *stream) rest(ctx context.Context, wait time.Duration, idle bool) (woken bool) {
	if wait <= 0 {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	hint := s.wakeups(idle)
	select {
	case <-ctx.Done():
		return false
	case <-hint:
		return true
	case <-timer.C:
	}
	select {
	case <-hint: // the turn that follows sees what it was for
		return true
	default:
		return false
	}
}

// wakeups receives when the stream should look: the ordered one when it is nudged, the
// plain one at commits, while the outbox is idle.
func (s *stream) wakeups(idle bool) <-chan struct{} {
	switch {
	case s.ordered():
		return s.nudged
	case s.waker == nil:
		return nil
	case idle:
		s.waker.Arm()
		return s.waker.C()
	default:
		s.waker.Disarm()
		return nil
	}
}
