package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// windowRows is the least that a claim looks at: rows whose turn it is not fill
	// a small window. One that finds too few is continued in larger ones.
	windowRows   = 1000
	windowGrowth = 4
	// orderedFelt is how long a sweep over rows that are parked may keep the others
	// waiting.
	orderedFelt = 8 * time.Millisecond
	// lookKeys is how many keys a claim looks at because they were just settled.
	lookKeys = 1000
	// busyKeys is how many keys a claim is told to leave out.
	busyKeys = 1000
)

// orderedStream is the state of claiming rows with an ordering key. They are
// claimed apart from the others, by one loop.
type orderedStream struct {
	cursor    cursor
	batchSize *batchSize
	// nudged is signalled when there may be something to claim.
	nudged chan struct{}

	mu sync.Mutex
	// busy are keys that are being sent and have more behind: their rows would
	// fill the next claim's window.
	busy map[string]bool
	// look are keys that were settled while claims keep to the hint: what follows
	// in them may lie below it.
	look []string
}

func newOrderedStream(batchSize int) orderedStream {
	return orderedStream{
		cursor: cursor{felt: orderedFelt}, batchSize: newBatchSize(batchSize), nudged: make(chan struct{}, 1), busy: map[string]bool{},
	}
}

// nudge makes the loop look now.
func (o *orderedStream) nudge() { signal(o.nudged) }

// sending records a run that takes as many rows of its key as a claim may.
func (o *orderedStream) sending(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.busy) < busyKeys {
		o.busy[key] = true
	}
}

// settled records that a key has nothing under way any more. A claim follows, so
// that what comes next in the key waits for no poll.
func (o *orderedStream) settled(key string) {
	rationed := o.cursor.rationed(time.Now())
	o.mu.Lock()
	delete(o.busy, key)
	if rationed {
		o.look = append(o.look, key)
	}
	o.mu.Unlock()
	o.nudge()
}

// hints returns the keys to leave out and those to look at.
func (o *orderedStream) hints() (busy, look []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.busy {
		busy = append(busy, key)
	}
	slices.Sort(busy)
	n := min(len(o.look), lookKeys)
	look = slices.Compact(slices.Sorted(slices.Values(o.look[:n])))
	o.look = slices.Delete(o.look, 0, n)
	return busy, look
}

func (o *orderedStream) looks() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.look) > 0
}

// unusedPolls is how much rarer than the other loop this one looks by itself
// while it has never met a key.
const unusedPolls = 10

// leadOrdered is the loop that claims keys. Claims of the other loop tell it of
// rows behind its hint, so where keys are not used it costs next to nothing.
func (d *Dispatcher) leadOrdered(ctx context.Context) error {
	pace := pacer{poll: d.cfg.PollInterval, random: d.cfg.Random}
	more := false
	for ctx.Err() == nil {
		r := d.turnOrdered(ctx, more)
		more = r.more
		wait := pace.next(r)
		if d.cfg.Once {
			if done, err := d.drained(ctx, r, &pace, &d.ordered.cursor, d.runOrdered); done {
				return err
			}
		}
		if pace.idle() && d.ordered.cursor.blind() {
			wait *= unusedPolls
		}
		d.restOrdered(ctx, wait)
	}
	return nil
}

func (d *Dispatcher) restOrdered(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		select {
		case <-d.ordered.nudged: // what it was nudged for, the turn that follows sees
		default:
		}
	case <-d.ordered.nudged:
	}
}

// turnOrdered claims keys where the claim before has left some, or a look, which
// is one plain query, has found any.
func (d *Dispatcher) turnOrdered(ctx context.Context, more bool) runResult {
	if !more && !d.ordered.looks() {
		if due, err := d.lookOrdered(); err != nil || !due {
			return runResult{err: err}
		}
	}
	return d.runOrdered(ctx, false)
}

func (d *Dispatcher) lookOrdered() (bool, error) {
	ctx, cancel := context.WithTimeout(d.abandon, claimTimeout)
	defer cancel()
	c := &d.ordered.cursor
	s := c.next(time.Now(), false)
	p := ClaimParams{AfterSeq: s.after, ThroughSeq: s.through}
	d.leaveOut(&p)
	due, err := d.store.DueOrdered(ctx, p)
	switch {
	case err != nil:
		d.observe.Trouble("look for due rows with an ordering key", err)
		c.failed(s, time.Now(), d.end(s, false))
	case due:
		c.found(s)
	default:
		c.done(s, time.Now(), false, 0, 0)
	}
	return due, err
}

// runOrdered claims keys and starts to send what it got. A claim that has seen as
// much as it may without reaching its limits is continued behind that: rows whose
// turn it is not may fill it.
func (d *Dispatcher) runOrdered(ctx context.Context, sweep bool) (r runResult) {
	o := &d.ordered
	s := o.cursor.next(time.Now(), sweep)
	busy, look := o.hints()
	after, last, took, cut := s.after, int64(0), time.Duration(0), false
	for growth := 1; ; growth = windowGrowth {
		got, err := d.inFlight.reserve(ctx, o.batchSize.limit())
		if err != nil {
			break // only the end of ctx does this
		}
		p := OrderedParams{ClaimParams: ClaimParams{
			AfterSeq: after, ThroughSeq: s.through, Limit: got.rows, MaxBytes: got.bytes, MaxRowBytes: d.maxRowBytes(), Lease: d.cfg.Lease,
		}, Sweep: s.sweep, Busy: busy, Look: look, Window: growth * max(got.rows, windowRows)}
		crowded := d.leaveOut(&p.ClaimParams)
		started := time.Now()
		claim, err := d.claimOrdered(p)
		took += time.Since(started)
		d.inFlight.adjust(got, claim.Rows)
		if err != nil {
			o.cursor.failed(s, time.Now(), d.end(s, false))
			return runResult{rows: r.rows, err: err}
		}
		if len(claim.Rows) > 0 {
			d.inFlight.passOver(crowded)
		}
		r.rows += len(claim.Rows)
		cut = d.launchRuns(ctx, started, p, claim.Rows) || cut
		last = max(last, claim.reached(look))
		r.more = claim.Full
		if claim.Full || claim.Seen < p.Window {
			o.resize(got.rows, len(claim.Rows), cut, len(busy) > 0)
			break
		}
		after, look = claim.SeenTo, nil
	}
	r.swept = o.cursor.done(s, s.began.Add(took), r.more, r.rows, last)
	return r
}

// resize adapts the next claim. One that gave a key all that one key may have is
// as good as full, and one that found nothing beside keys that are being sent says
// nothing about what waits in them: a lone busy key never fills a claim, and would
// otherwise get a quarter of the smallest one, request after request.
func (o *orderedStream) resize(limit, got int, cut, busy bool) {
	switch {
	case cut:
		o.batchSize.done(limit, limit)
	case got > 0 || !busy:
		o.batchSize.done(limit, got)
	}
}

// reached is the seq up to which nothing that was seen is left to the next claim.
// One that is cut short takes keys in the order of their oldest row.
func (c OrderedClaim) reached(look []string) (seq int64) {
	if !c.Full {
		return c.SeenTo
	}
	known := map[string]bool{}
	for _, key := range look {
		known[key] = true
	}
	for i := range c.Rows {
		if r := &c.Rows[i]; !known[r.OrderingKey] {
			known[r.OrderingKey], seq = true, r.Seq
		}
	}
	return seq
}

func (d *Dispatcher) claimOrdered(p OrderedParams) (OrderedClaim, error) {
	ctx, cancel := context.WithTimeout(d.abandon, claimTimeout)
	defer cancel()
	started := time.Now()
	claim, err := d.store.ClaimOrdered(ctx, p)
	d.claimed(started, claim.Rows, p.Sweep, err)
	return claim, err
}

// trialHead leases the head of a key for a trial.
func (d *Dispatcher) trialHead(p ClaimParams) ([]Claimed, error) {
	claim, err := d.claimOrdered(OrderedParams{ClaimParams: p, Sweep: p.AfterSeq == 0, Window: windowRows})
	return claim.Rows, err
}

// launchRuns starts to send the runs of a claim, and reports whether one of them
// was cut: it has as many rows as a claim takes of one key.
func (d *Dispatcher) launchRuns(ctx context.Context, started time.Time, p OrderedParams, rows []Claimed) (cut bool) {
	runs := d.runs(rows)
	for _, g := range runs {
		if len(g.rows) >= p.most() {
			d.ordered.sending(g.key)
			cut = true
		}
	}
	d.start(ctx, started, runs, d.sendRun)
	return cut
}

// runs sorts claimed rows by their key.
func (d *Dispatcher) runs(rows []Claimed) (runs []*group) {
	byKey := map[string]*group{}
	for i := range rows {
		row := &rows[i]
		g := byKey[row.OrderingKey]
		if g == nil {
			t, _ := d.catalogue.Describe(row.Namespace, row.EventType)
			g = &group{key: row.OrderingKey, topic: t.Topic}
			byKey[g.key] = g
			runs = append(runs, g)
		}
		g.rows = append(g.rows, row)
		g.bytes += row.held()
	}
	return runs
}
