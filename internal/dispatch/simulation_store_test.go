package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var (
	errSimConnection = errors.New("connection reset by peer")
	errSimAborted    = errors.New("terminating connection due to administrator command")
)

// openTx is a transaction between its first lock and its end.
type openTx struct {
	*memTx
	c     *call
	ended bool
}

// storeCall is a call to the table.
type storeCall struct {
	call
	// begin starts the call's transaction; it says false when it has to wait
	// for a lock. commit is told that the transaction committed.
	begin  func() (tx *memTx, ok bool)
	commit func()
	// head: the call walks from the head of the table.
	head bool
	// trouble is told that a fault hit the call.
	trouble func(what string)
	err     error
}

// Claim implements Store.
func (p *process) Claim(ctx context.Context, params ClaimParams) (claim Claim, err error) {
	if params.Ordered {
		return p.claimOrdered(ctx, params)
	}
	var got *leased
	unheard, asked := "", time.Now()
	c := p.storeCall(ctx, "claim", fmt.Sprintf("%s after=%d through=%d limit=%d only=%v except=%v",
		callerRole(), params.AfterSeq, params.ThroughSeq, params.Limit, params.Only, params.Except))
	c.head = params.AfterSeq == 0
	c.begin = func() (tx *memTx, ok bool) {
		tx, got = p.w.table.beginClaim(p.name, params)
		claim.Keyed = p.w.table.keyed(params.KeyedAfter)
		return tx, true
	}
	c.commit = func() {
		p.w.audit.claimed(p, got, asked, unheard)
		if !c.gone {
			claim.Rows, claim.Full = got.rows, params.cutShort(got.rows)
		}
		p.w.say("%s leases %s #%d", p.name, shortIDs(column(got.rows, func(r Claimed) string { return r.ID })), c.n)
	}
	c.trouble = func(what string) {
		unheard = what
		if got != nil {
			for _, r := range got.rows {
				p.w.audit.excuseLease(r.Key, p, what)
			}
		}
	}
	p.w.park(&c.call)
	if c.err != nil || p.dead {
		return Claim{}, c.err
	}
	return claim, nil
}

func (p *process) claimOrdered(ctx context.Context, params ClaimParams) (Claim, error) {
	var claim Claim
	var got *orderedLeased
	unheard, asked := "", time.Now()
	c := p.storeCall(ctx, "claim ordered", fmt.Sprintf("%s after=%d through=%d limit=%d only=%v except=%v sweep=%v busy=%v look=%v",
		callerRole(), params.AfterSeq, params.ThroughSeq, params.Limit, params.Only, params.Except, params.Sweep, params.Busy, params.Look))
	c.head = params.AfterSeq == 0
	c.begin = func() (tx *memTx, ok bool) {
		tx, got = p.w.table.beginOrdered(p.name, params)
		return tx, true
	}
	c.commit = func() {
		p.w.audit.claimed(p, &got.leased, asked, unheard)
		if !c.gone {
			claim = got.claim(params)
		}
		p.w.say("%s leases %s #%d", p.name, shortIDs(column(got.rows, func(r Claimed) string { return r.ID })), c.n)
	}
	c.trouble = func(what string) {
		unheard = what
		if got != nil {
			for _, r := range got.rows {
				p.w.audit.excuseLease(r.Key, p, what)
			}
		}
	}
	p.w.park(&c.call)
	if c.err != nil || p.dead {
		return Claim{}, c.err
	}
	return claim, nil
}

// Due implements Store.
func (p *process) Due(ctx context.Context, params ClaimParams) (due, keyed bool, err error) {
	name := "due"
	if params.Ordered {
		name = "due ordered"
	}
	c := p.storeCall(ctx, name, fmt.Sprintf("after=%d through=%d except=%v", params.AfterSeq, params.ThroughSeq, params.Except))
	c.head = params.AfterSeq == 0
	c.begin = func() (*memTx, bool) {
		if params.Ordered {
			due = p.w.table.dueOrdered(params)
			return &memTx{}, true
		}
		due, _ = p.w.table.due(params)
		keyed = p.w.table.keyed(params.KeyedAfter)
		return &memTx{}, true
	}
	p.w.park(&c.call)
	return due && c.err == nil, keyed && c.err == nil, c.err
}

// Held implements Store.
func (p *process) Held(ctx context.Context) (rows int, until time.Time, err error) {
	c := p.storeCall(ctx, "held", "")
	c.begin = func() (*memTx, bool) {
		rows, until = p.w.table.held(p.name)
		return &memTx{}, true
	}
	p.w.park(&c.call)
	return rows, until, c.err
}

// LastSeq implements Store.
func (p *process) LastSeq(ctx context.Context) (int64, error) {
	last := int64(0)
	c := p.storeCall(ctx, "last seq", callerRole())
	c.begin = func() (*memTx, bool) {
		last = p.w.table.lastSeq()
		return &memTx{}, true
	}
	p.w.park(&c.call)
	if c.err != nil || p.dead {
		return 0, c.err
	}
	return last, nil
}

// Settle implements Store.
func (p *process) Settle(ctx context.Context, v Verdicts) (Settled, error) {
	n := &Settled{}
	var kept []change
	c := p.storeCall(ctx, "settle", describe(v))
	c.begin = func() (tx *memTx, ok bool) {
		var count *Settled
		if tx, count, kept = p.w.table.beginSettle(p.name, v); tx == nil {
			return nil, false
		}
		n = count
		return tx, true
	}
	c.commit = func() { p.w.audit.settled(p, v, kept) }
	stuck := false
	c.trouble = func(what string) {
		// Verdicts queue behind one that does not get through.
		p.w.audit.excuse(p, "a settle of its publisher: "+what)
		if !stuck {
			stuck = true
			p.stuck++
		}
	}
	c.heard = func() {
		if stuck {
			p.stuck--
		}
	}
	p.w.park(&c.call)
	if p.dead {
		return Settled{Published: len(v.Published), Failed: len(v.Failed), Dead: len(v.Dead), Released: len(v.Released)}, nil
	}
	if c.err != nil {
		return Settled{}, c.err
	}
	return *n, nil
}

func (p *process) storeCall(ctx context.Context, kind, detail string) *storeCall {
	c := &storeCall{call: call{proc: p, ctx: ctx, kind: kind, detail: detail}}
	c.commit, c.trouble = func() {}, func(string) {}
	c.fail = func(err error) {
		c.err = err
		c.trouble("given up on")
	}
	c.admit = func() { p.w.admitStore(c) }
	return c
}

// admitStore decides what becomes of a call to the table.
func (w *world) admitStore(c *storeCall) {
	c.survives = w.chance(0.5)
	travel := w.between(20*time.Microsecond, 2*time.Millisecond)
	outcome := storeOutcome{reply: true}
	switch {
	case c.head && time.Now().Before(w.slowHead):
		return // until its caller gives up
	case w.suffers(storeError):
		w.refuse(c, travel, errSimConnection)
		return
	case w.suffers(storeHang):
		outcome.reply = false
		c.trouble(string(storeHang))
		if w.chance(0.5) {
			return // the call never gets there
		}
	case w.suffers(storeReplyLost):
		outcome.err = errSimConnection
		c.trouble(string(storeReplyLost))
	case w.suffers(storeAborted):
		outcome.abort = true
	case w.suffers(storeSlow):
		travel = w.between(2*time.Millisecond, w.plan.cfg.Lease+2*time.Second)
		c.trouble(string(storeSlow))
	}
	w.after(travel, func() { w.beginStore(c, outcome) })
}

// storeOutcome is the fate of a transaction.
type storeOutcome struct {
	abort, reply bool
	err          error
}

func (w *world) refuse(c *storeCall, d time.Duration, err error) {
	w.after(d, func() {
		if !c.replied && !c.held {
			c.fail(err)
			w.letGo(&c.call, err)
		}
	})
}

func (w *world) beginStore(c *storeCall, outcome storeOutcome) {
	switch {
	case c.doomed:
		return
	case w.away:
		w.refuse(c, w.between(time.Microsecond, time.Millisecond), errSimConnection)
		return
	}
	mem, ok := c.begin()
	if !ok { // waits for a lock
		w.after(w.between(50*time.Microsecond, time.Millisecond), func() { w.beginStore(c, outcome) })
		return
	}
	c.begun = true
	tx := &openTx{memTx: mem, c: &c.call}
	w.txs = append(w.txs, tx)
	w.goOn(c, tx, outcome)
}

// goOn runs what is left of a transaction, with time between its statements.
func (w *world) goOn(c *storeCall, tx *openTx, outcome storeOutcome) {
	w.after(w.between(20*time.Microsecond, 2*time.Millisecond), func() {
		if !tx.ended && tx.step() {
			w.goOn(c, tx, outcome)
			return
		}
		w.endStore(c, tx, outcome)
	})
}

func (w *world) endStore(c *storeCall, tx *openTx, outcome storeOutcome) {
	if tx.ended { // the database went down meanwhile
		w.refuse(c, w.between(time.Microsecond, time.Millisecond), errSimAborted)
		return
	}
	w.closeTx(tx, !outcome.abort)
	if outcome.abort {
		w.say("#%d is aborted", c.n)
		w.refuse(c, w.between(time.Microsecond, time.Millisecond), errSimAborted)
		return
	}
	c.commit()
	travel := w.between(20*time.Microsecond, 2*time.Millisecond)
	switch {
	case outcome.err != nil:
		w.refuse(c, travel, outcome.err)
	case outcome.reply:
		w.answer(&c.call, travel)
	}
}

func (w *world) closeTx(tx *openTx, commit bool) {
	tx.ended = true
	tx.end(commit)
	w.txs = slices.DeleteFunc(w.txs, func(o *openTx) bool { return o == tx })
}

// databaseDown takes the database away for a while: what was open is rolled
// back.
func (w *world) databaseDown(d time.Duration) {
	if w.away {
		return
	}
	w.say("the database goes away for %v", d)
	w.away = true
	w.audit.excuseAll("the database went away")
	for _, tx := range slices.Clone(w.txs) {
		w.closeTx(tx, false)
	}
	w.after(d, w.databaseBack)
}

func (w *world) databaseBack() {
	if w.away {
		w.say("the database is back")
		w.away = false
		w.audit.excuseAll("the database was away")
	}
}

func describe(v Verdicts) string {
	ids := func(keys []Key) string { return shortIDs(column(keys, func(k Key) string { return k.ID })) }
	return fmt.Sprintf("published=%s failed=%s dead=%s released=%s",
		ids(column(v.Published, func(x Published) Key { return x.Key })),
		ids(column(v.Failed, func(x Failed) Key { return x.Key })),
		ids(column(v.Dead, func(x Dead) Key { return x.Key })), ids(v.Released))
}

// shortIDs names rows by their seq, in order: goroutines that ran at the same
// moment may have queued their rows in any.
func shortIDs(ids []string) string {
	short := column(ids, func(id string) string { return id[len(id)-4:] })
	slices.Sort(short)
	return "[" + strings.Join(short, " ") + "]"
}
