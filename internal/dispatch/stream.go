package dispatch

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

const (
	// windowRows is the least that an ordered claim looks at: rows whose turn it is
	// not fill a small window. One that finds too few is continued in larger ones.
	windowRows   = 1000
	windowGrowth = 4

	// leasesPause is how long claims look for no lease whose time is over after one has: of a table that is written with
	// every claim such a look reads all that vacuum has left, and where little waits each claim is a sweep.
	leasesPause = 250 * time.Millisecond
)

// stream claims one kind of rows and starts to send them. A dispatcher has two: the
// plain one claims rows without an ordering key, by several workers under load; the
// ordered one claims rows with a key, whose turn it is, by one worker.
type stream struct {
	*Dispatcher
	cursor    cursor
	batchSize *batchSize
	// split sorts claimed rows into the groups that are sent side by side.
	split func([]Claimed) []*group

	// detours and helpers are the plain stream's.
	detours detours
	// helpers is signalled when a claim came back full and more workers help.
	helpers chan struct{}

	// keys and nudged are the ordered stream's, nil in the other.
	keys *keyState
	// nudged is signalled when there may be something to claim.
	nudged chan struct{}
}

func newPlainStream(d *Dispatcher) *stream {
	return &stream{
		Dispatcher: d, split: d.splitByTopic, batchSize: newBatchSize(d.cfg.BatchSize),
		helpers: make(chan struct{}, d.cfg.Workers),
	}
}

func newOrderedStream(d *Dispatcher) *stream {
	return &stream{
		Dispatcher: d, split: d.splitByKey, batchSize: newBatchSize(d.cfg.BatchSize),
		cursor: cursor{maxSweep: orderedMaxSweep},
		keys:   &keyState{busy: map[string]bool{}}, nudged: make(chan struct{}, 1),
	}
}

func (s *stream) ordered() bool { return s.keys != nil }

// nudge makes the ordered stream look now.
func (s *stream) nudge() { signal(s.nudged) }

// turnResult is what one turn of the loop did.
type turnResult struct {
	rows int
	// more: the claim was cut short by its limits. further: it was one step, and behind that may be more.
	more, further bool
	// swept: the claim ended a sweep, and left nothing behind.
	swept bool
	err   error
}

// claimAndSend waits for room, claims and starts to send what it got. An ordered claim
// that has seen as much as it may without reaching its limits is continued behind
// that: rows whose turn it is not may fill it.
func (s *stream) claimAndSend(ctx context.Context, sweep bool) (r turnResult) {
	room, err := s.inFlight.reserve(ctx, s.batchSize.limit())
	if err != nil {
		return r // only the end of ctx does this
	}
	p := s.params(room)
	c, at := s.aim(&p, sweep)
	p.Busy, p.Look = s.keys.hints()
	last, took, cut := int64(0), time.Duration(0), false
	for more := true; more; {
		started := time.Now()
		claim, err := s.claim(p)
		took += time.Since(started)
		s.inFlight.adjust(room, claim.Rows)
		if err != nil {
			c.failed(at, time.Now(), s.endAfter(at, c))
			return turnResult{rows: r.rows, err: err}
		}
		r.rows, r.more = r.rows+len(claim.Rows), claim.Full
		last = max(last, claim.reached(p))
		more = !claim.Full && p.Window > 0 && claim.Seen >= p.Window
		if !more {
			r.further = !r.more && at.short()
			r.swept = c.done(at, at.began.Add(took), r.more, r.rows, last) && c == &s.cursor
			s.startSomewhere(at)
		}
		cut = s.launch(ctx, started, p, claim.Rows) || cut
		switch {
		case more:
			if room, err = s.inFlight.reserve(ctx, s.batchSize.limit()); err != nil {
				return r
			}
			p = s.behind(p, claim.SeenTo, room)
		case c == &s.cursor: // a detour says nothing about the backlog
			s.resize(room.rows, claim, cut, len(p.Busy) > 0)
		}
	}
	return r
}

// params are those of a claim within a reserved room.
func (s *stream) params(r room) ClaimParams {
	p := ClaimParams{
		Limit: r.rows, MaxBytes: r.bytes, MaxRowBytes: s.maxRowBytes(), Lease: s.cfg.Lease,
		Ordered: s.ordered(),
	}
	if p.Ordered {
		p.Window = max(r.rows, windowRows)
	}
	return p
}

// behind continues a claim behind what it has seen, in a larger window.
func (s *stream) behind(p ClaimParams, seenTo int64, r room) ClaimParams {
	next := s.params(r)
	s.leaveOut(&next)
	next.AfterSeq, next.ThroughSeq, next.Sweep, next.KeepLeases, next.Busy = seenTo, p.ThroughSeq, p.Sweep, true, p.Busy
	next.Window *= windowGrowth
	return next
}

// aim decides where a claim looks, and returns the cursor that wants to know what
// it finds there.
func (s *stream) aim(p *ClaimParams, sweep bool) (*cursor, span) {
	now := time.Now()
	s.leaveOut(p)
	c := &s.cursor
	if !p.Ordered {
		c = s.detours.of(p.crowded, c, now)
		p.KeyedAfter = s.orderedStream.cursor.hint()
	}
	at := c.next(now, sweep)
	if c != &s.cursor {
		at.end = s.lastSeq()
	}
	p.AfterSeq, p.ThroughSeq, p.Sweep = at.after, at.through, at.sweep
	p.KeepLeases = !sweep && now.Sub(time.Unix(0, s.leasesLooked.Load())) < leasesPause
	return c, at
}

// leaveOut names the event types not to claim now.
func (d *Dispatcher) leaveOut(p *ClaimParams) {
	p.Except, p.crowded = d.breakers.except(d.inFlight.crowded)
	p.Except = p.Except.Or(outbox.ByNamespace(d.cfg.Authority.Except()))
	spent, names := d.rates.spent(time.Now())
	p.Except, p.crowded = p.Except.Or(spent), append(p.crowded, names...)
	p.Paused = d.paused()
}

// endAfter asks for the largest seq after a claim that failed, where claims could
// otherwise not go on: they have no hint yet, or the one they have is so far
// behind that the walk from there is too long. 0 means that it is not known.
func (s *stream) endAfter(at span, c *cursor) int64 {
	if time.Since(at.began) < claimSlow && (s.ordered() || !c.blind()) {
		return 0
	}
	return s.lastSeq()
}

// startSomewhere gives plain claims a hint where a sweep that found nothing to start
// from was slow: all that waits may have an ordering key, and is not theirs.
func (s *stream) startSomewhere(at span) {
	if !s.ordered() && s.cursor.blind() && time.Since(at.began) > sweepSlow {
		s.cursor.pass(s.lastSeq())
	}
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

// claim leases rows, and has the ordered stream look when rows wait that are its. It is
// not cancelled with the loop: a claim that commits after its caller has stopped
// waiting would strand its rows until the lease ends.
func (d *Dispatcher) claim(p ClaimParams) (Claim, error) {
	ctx, cancel := context.WithTimeout(d.abandon, claimTimeout)
	defer cancel()
	started := time.Now()
	claim, err := d.store.Claim(ctx, p)
	if claim.Keyed {
		d.orderedStream.nudge()
	}
	now := time.Now()
	d.lastClaim.Store(&err)
	if err == nil && p.endsLeases() {
		d.leasesLooked.Store(started.UnixNano())
	}
	d.observe.Claimed(ClaimReport{
		Rows: len(claim.Rows), Sweep: p.Sweep, Took: now.Sub(started), Err: err,
	})
	if len(claim.Rows) > 0 {
		failpoint.Hit(failpoint.Claimed)
	}
	if n := d.endangered(claim.Rows); n > 0 {
		// A row that kills its publishers comes back one lease from now.
		d.inFlight.narrow(n, now.Add(2*d.cfg.Lease))
	}
	return claim, err
}

// endangered is how far beyond half of its attempts the worst of the rows is
// whose publisher has just died.
func (d *Dispatcher) endangered(rows []Claimed) (worst int) {
	for i := range rows {
		if r := &rows[i]; r.Expired {
			worst = max(worst, r.AttemptCount-d.attemptLimit(r)/2)
		}
	}
	return worst
}

// launch starts to send claimed rows, and reports whether a key was cut: it has as
// many rows as a claim takes of one key.
func (s *stream) launch(
	ctx context.Context, started time.Time, p ClaimParams, rows []Claimed,
) (cut bool) {
	if len(rows) == 0 {
		return false
	}
	rows, rest := s.rates.allow(rows, time.Now())
	s.giveBack(started, rest)
	groups := s.split(rows)
	cut = s.keys.sending(groups, p.most())
	if p.Ordered { // plain claims come back to a topic by their cursor, which stays there
		s.inFlight.passOver(p.crowded)
	}
	s.start(ctx, started, groups)
	return cut
}

// start sends groups that were claimed at started, side by side, or, when the
// dispatcher is stopping, gives them back untouched.
func (d *Dispatcher) start(ctx context.Context, started time.Time, groups []*group) {
	for _, g := range groups {
		d.begin(g, started)
	}
	for _, g := range groups {
		if ctx.Err() != nil {
			d.release(g)
			continue
		}
		send := func() {
			d.cfg.turn("send " + g.name())
			_ = d.send(d.abandon, g) // the breaker has seen the error
		}
		if g.key != "" && g.topic != "" {
			d.breakers.at(g.topic).keyed.send(send)
		} else {
			go send()
		}
	}
}

// begin counts a group until it is settled.
func (d *Dispatcher) begin(g *group, started time.Time) {
	g.claimed = started
	d.inFlight.start(g)
	d.groups.add(1)
}

// release gives back rows that were never handed to the broker.
func (d *Dispatcher) release(g *group) {
	d.LookAgain() // they are behind the hint now
	d.settleGroup(g, Verdicts{Released: keysOf(g.rows)})
}

// resize adapts the next claim. One that gave a key all that one key may have is
// as good as full, and so is one whose rows another publisher leased a moment before: there
// is more where it looks next. One that found nothing beside keys that are being sent says
// nothing about what waits in them: a lone busy key never fills a claim, and would
// otherwise get a quarter of the smallest one, request after request.
func (s *stream) resize(limit int, claim Claim, cut, busy bool) {
	switch {
	case cut || claim.Beaten:
		s.batchSize.done(limit, limit)
	case len(claim.Rows) > 0 || !busy:
		s.batchSize.done(limit, len(claim.Rows))
	}
}

// reached is the seq up to which nothing that was seen is left to the next claim, or 0.
// An ordered claim that is cut short takes keys in the order of their oldest row.
func (c Claim) reached(p ClaimParams) (seq int64) {
	switch {
	case !p.Ordered && len(c.Rows) > 0:
		return c.Rows[len(c.Rows)-1].Seq
	case !p.Ordered || !c.Full:
		return c.SeenTo
	}
	known := map[string]bool{}
	for _, key := range p.Look {
		known[key] = true
	}
	for i := range c.Rows {
		if r := &c.Rows[i]; !known[r.OrderingKey] {
			known[r.OrderingKey], seq = true, r.Seq
		}
	}
	return seq
}

// cutShort reports whether the claim ended at one of its limits.
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
	return int64(d.publisher.Limits("").MessageBytes) + headersSlack
}
