package dispatch

import (
	"context"
	"time"
)

// lead is the loop that polls. It alone decides when the outbox is idle.
func (d *Dispatcher) lead(ctx context.Context) error {
	pace := pacer{poll: d.cfg.PollInterval, random: d.cfg.Random}
	woken := false
	for ctx.Err() == nil {
		d.pulse.beat(time.Now())
		r := d.turn(ctx, pace.idle() && !woken)
		if r.more {
			d.callHelp()
		}
		wait := pace.next(r)
		if d.cfg.Once {
			if done, err := d.drained(ctx, r, &pace, &d.cursor, d.runOnce); done {
				return err
			}
		}
		woken = d.rest(ctx, wait, pace.idle())
	}
	return nil
}

// turn claims, or, on an idle outbox, first looks whether there is anything:
// a look is one plain query, a claim a transaction.
func (d *Dispatcher) turn(ctx context.Context, idle bool) runResult {
	if idle {
		if due, err := d.look(); err != nil || !due {
			return runResult{err: err}
		}
	}
	return d.runOnce(ctx, false)
}

func (d *Dispatcher) look() (bool, error) {
	ctx, cancel := context.WithTimeout(d.abandon, claimTimeout)
	defer cancel()
	p := ClaimParams{}
	c, s := d.aim(&p, false)
	due, keyed, err := d.store.Due(ctx, p)
	if keyed {
		d.ordered.nudge()
	}
	switch {
	case err != nil:
		d.observe.Trouble("look for due rows", err)
		c.failed(s, time.Now(), d.end(s, c.blind()))
	case due:
		c.found(s)
	default:
		c.done(s, time.Now(), false, 0, 0)
		d.passOver(s)
	}
	return due, err
}

// drained decides whether a run with Once is over: nothing was found, what was
// in flight is settled, and a sweep after that finds nothing either. A topic
// that has just failed gets a moment to come back; an outage is not waited
// for.
func (d *Dispatcher) drained(ctx context.Context, r runResult, pace *pacer, c *cursor, run func(ctx context.Context, sweep bool) runResult) (bool, error) {
	if r.err != nil {
		return pace.trouble >= troubleMax, r.err
	}
	if r.rows > 0 || ctx.Err() != nil {
		return false, nil
	}
	d.groups.wait()
	for wait := probeMin; !d.breakers.healthy() && wait <= 8*probeMin && ctx.Err() == nil; wait *= 2 {
		d.rest(ctx, wait, false)
	}
	c.restart()
	for ctx.Err() == nil {
		again := run(ctx, true)
		if again.err != nil || again.rows > 0 {
			return false, nil
		}
		if again.swept {
			return true, nil
		}
		d.rest(ctx, pollMin, false) // a helper sweeps, or this was a part of it
	}
	return false, nil
}

// help is a loop that joins in while claims come back full, until the leader is
// done.
func (d *Dispatcher) help(ctx context.Context, drained <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-drained:
			return nil
		case <-d.helpers:
		}
		for ctx.Err() == nil {
			if r := d.runOnce(ctx, false); r.err != nil || !r.more {
				break
			}
		}
	}
}

func (d *Dispatcher) callHelp() {
	for range d.cfg.Workers - 1 {
		signal(d.helpers)
	}
}

// rest waits, or returns earlier at a hint that rows were committed, and reports
// whether there was one.
func (d *Dispatcher) rest(ctx context.Context, wait time.Duration, idle bool) (woken bool) {
	if wait <= 0 {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var hint <-chan struct{}
	if idle {
		d.waker.Arm()
		hint = d.waker.C()
	} else {
		d.waker.Disarm()
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-hint:
		return true
	}
	return false
}
