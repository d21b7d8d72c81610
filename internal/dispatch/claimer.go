package dispatch

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// runResult is what one turn of the loop did.
type runResult struct {
	rows int
	// more: the claim was cut short by its limits.
	more bool
	// swept: the claim ended a sweep, and left nothing behind.
	swept bool
	err   error
}

// runOnce waits for room, claims once and starts to send what it got.
func (d *Dispatcher) runOnce(ctx context.Context, sweep bool) runResult {
	got, err := d.inFlight.reserve(ctx, d.batchSize.limit())
	if err != nil {
		return runResult{} // only the end of ctx does this
	}
	p := ClaimParams{Limit: got.rows, MaxBytes: got.bytes, MaxRowBytes: d.maxRowBytes(), Lease: d.cfg.Lease}
	c, s := d.aim(&p, sweep)
	started := time.Now()
	rows, err := d.claim(p, s.sweep)
	d.inFlight.adjust(got, rows)
	if err != nil {
		c.failed(s, time.Now(), d.end(s, c.blind()))
		return runResult{err: err}
	}
	swept := c.done(s, time.Now(), p.cutShort(rows), len(rows), seqOfLast(rows))
	d.passOver(s)
	whole := c == &d.cursor // a claim around others says nothing about the backlog
	if whole {
		d.batchSize.done(got.rows, len(rows))
	}
	d.launch(ctx, started, rows)
	return runResult{rows: len(rows), more: p.cutShort(rows), swept: swept && whole}
}

// aim decides where a claim looks, and returns the cursor that wants to know what
// it finds there.
func (d *Dispatcher) aim(p *ClaimParams, sweep bool) (*cursor, span) {
	now := time.Now()
	c := d.around.of(d.leaveOut(p), &d.cursor, now)
	s := c.next(now, sweep)
	if c != &d.cursor {
		s.end = d.lastSeq()
	}
	p.AfterSeq, p.ThroughSeq, p.KeyedAfter = s.after, s.through, d.ordered.cursor.hint()
	return c, s
}

// leaveOut names the event types not to claim now, and returns the topics that are only crowded.
func (d *Dispatcher) leaveOut(p *ClaimParams) (crowded []string) {
	p.Except, crowded = d.breakers.except(d.inFlight.crowded)
	p.Except = p.Except.Or(outbox.ByNamespace(d.cfg.Authority.Except()))
	p.Paused = d.paused()
	return crowded
}

// end asks for the largest seq after a claim that failed, where claims could
// otherwise not go on: they have no hint yet, or the one they have is so far
// behind that the walk from there is too long. 0 means that it is not known.
func (d *Dispatcher) end(s span, blind bool) int64 {
	if time.Since(s.began) < claimSlow && !blind {
		return 0
	}
	return d.lastSeq()
}

// lastSeq is the largest seq there is, or 0 if that is not known: the error of the
// claim beside it is observed, and has most likely the same cause.
func (d *Dispatcher) lastSeq() int64 {
	ctx, cancel := context.WithTimeout(d.abandon, claimTimeout)
	defer cancel()
	end, err := d.store.LastSeq(ctx)
	if err != nil {
		return 0
	}
	return end
}

// passOver gives claims a hint where a sweep that found nothing to start from was
// felt: all that waits may have an ordering key, and is not theirs.
func (d *Dispatcher) passOver(s span) {
	if d.cursor.blind() && time.Since(s.began) > sweepFelt {
		d.cursor.pass(d.lastSeq())
	}
}

// claim leases rows, and has the other loop look when rows wait that it leaves
// alone. It is not cancelled with the loop: a claim that commits after its caller
// has stopped waiting would strand its rows until the lease ends.
func (d *Dispatcher) claim(p ClaimParams, sweep bool) ([]Claimed, error) {
	ctx, cancel := context.WithTimeout(d.abandon, claimTimeout)
	defer cancel()
	started := time.Now()
	rows, keyed, err := d.store.Claim(ctx, p)
	if keyed {
		d.ordered.nudge()
	}
	d.claimed(started, rows, sweep, err)
	return rows, err
}

// claimed records how a claim ended.
func (d *Dispatcher) claimed(started time.Time, rows []Claimed, sweep bool, err error) {
	now := time.Now()
	d.lastClaim.Store(&err)
	d.observe.Claimed(ClaimReport{Rows: len(rows), Sweep: sweep, Took: now.Sub(started), Err: err})
	if len(rows) > 0 {
		failpoint.Hit(failpoint.Claimed)
	}
	if n := endangered(rows, d.cfg.MaxAttempts); n > 0 {
		// A row that kills its publishers comes back one lease from now.
		d.inFlight.narrow(n, now.Add(2*d.cfg.Lease))
	}
}

// seqOfLast is the seq of the last of rows, or 0.
func seqOfLast(rows []Claimed) int64 {
	if len(rows) == 0 {
		return 0
	}
	return rows[len(rows)-1].Seq
}

// endangered is how far beyond half of its attempts the worst of the rows is
// whose publisher has just died.
func endangered(rows []Claimed, maxAttempts int) (worst int) {
	for i := range rows {
		if r := &rows[i]; r.Expired {
			worst = max(worst, r.AttemptCount-attemptLimit(r, maxAttempts)/2)
		}
	}
	return worst
}

// launch starts to send the rows of a claim that began at started, or, when the
// dispatcher is stopping, gives them back untouched.
func (d *Dispatcher) launch(ctx context.Context, started time.Time, rows []Claimed) {
	if len(rows) == 0 {
		return
	}
	d.start(ctx, started, d.split(rows), d.send)
}

// start sends groups that were claimed at started, side by side.
func (d *Dispatcher) start(ctx context.Context, started time.Time, groups []*group, send func(context.Context, *group) error) {
	for _, g := range groups {
		g.claimed = started
		d.inFlight.start(g)
		d.groups.begin()
	}
	for _, g := range groups {
		if ctx.Err() != nil {
			d.release(g)
			continue
		}
		run := func() {
			d.cfg.turn("send " + g.name())
			_ = send(d.abandon, g) // the breaker has seen the error
		}
		if g.key != "" && g.topic != "" {
			d.breakers.at(g.topic).runs.send(run)
		} else {
			go run()
		}
	}
}

// release gives back rows that were never handed to the broker.
func (d *Dispatcher) release(g *group) {
	d.rewind() // they are behind the hint now
	d.settleGroup(g, Verdicts{Released: column(g.rows, func(r *Claimed) Key { return r.Key })})
}

// rewind makes the next claims sweeps.
func (d *Dispatcher) rewind() {
	d.cursor.rewind(time.Now())
	d.around.rewind(time.Now())
	d.ordered.cursor.rewind(time.Now())
	d.ordered.nudge()
}

// cutShort reports whether the claim ended at one of its limits, so that there
// may be more.
func (p ClaimParams) cutShort(rows []Claimed) bool {
	var printed int64
	for i := range rows {
		printed += rows[i].Printed
	}
	return len(rows) >= p.Limit || printed >= p.MaxBytes
}

// heldBytes is what rows take of this process's memory.
func heldBytes(rows []Claimed) (n int64) {
	for i := range rows {
		n += rows[i].held()
	}
	return n
}

func (r *Claimed) held() int64 { return int64(len(r.Payload) + len(r.Headers)) }

// maxRowBytes is what a row may be when printed. Headers are printed as JSON, which
// takes more than the attributes that they become.
func (d *Dispatcher) maxRowBytes() int64 {
	return int64(d.publisher.Limits().MessageBytes) + headersSlack
}
