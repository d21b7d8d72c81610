package outbox

import (
	"sync"
	"time"
)

const (
	// sweepCheap is how much longer than its rows explain a sweep may take
	// and still be repeated with every claim.
	sweepCheap = 2 * time.Millisecond
	// sweepPerRow is what leasing one row may cost before the walk to it is
	// suspected.
	sweepPerRow = 60 * time.Microsecond
	// sweepShare bounds the time spent on expensive sweeps: 1 in 10.
	sweepShare = 10
	// sweepPause is the longest pause between two sweeps. What took long may
	// have been the database and not the walk, and rows below the hint must not
	// wait a hundred seconds for one answer that took ten.
	sweepPause = 5 * time.Second
)

// cursor decides where the next claim starts to look.
//
// Rows that are pending but not claimable (backing off, of a paused topic,
// leased, or dead index entries that a pinned xmin keeps alive) pile up at the
// head of the claim index, and a claim that starts at the head walks over all
// of them. So a claim normally starts after the largest seq claimed so far.
// That is a hint and never the truth: a low seq can commit late, a retry comes
// due, a lease expires. A sweep, which starts at the head, finds those. While
// sweeps are cheap every claim is one; once they are not, they get a tenth of
// the time.
type cursor struct {
	mu        sync.Mutex
	low       int64
	nextSweep time.Time
	// rewound is when rows below the hint became claimable, until a sweep that
	// was started later has looked at them.
	rewound time.Time
}

// next returns where to start, and whether that is a sweep.
func (c *cursor) next(now time.Time, force bool) (afterSeq int64, sweep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if force || c.low == 0 || !c.rewound.IsZero() || !now.Before(c.nextSweep) {
		return 0, true
	}
	return c.low, false
}

// done records a claim: what it found, whether it left something behind, and
// how long it took.
func (c *cursor) done(now time.Time, sweep, more bool, rows []Claimed, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(rows); n > 0 {
		c.low = max(c.low, rows[n-1].Seq)
		if sweep && more {
			// Whatever is left lies behind the last row of this sweep, and
			// much of it may lie below where claims had got to.
			c.low = rows[n-1].Seq
		}
	}
	if !sweep {
		return
	}
	c.nextSweep = now
	if took > sweepCheap+time.Duration(len(rows))*sweepPerRow {
		c.nextSweep = now.Add(min(sweepShare*took, sweepPause))
	}
	if now.Add(-took).After(c.rewound) {
		c.rewound = time.Time{}
	}
}

// rewind makes the next claim a sweep: rows below the hint may have become
// claimable. A claim that is under way has not seen them, and does not undo
// this.
func (c *cursor) rewind(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rewound = now
}
