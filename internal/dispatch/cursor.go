package dispatch

import (
	"slices"
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
	// sweepsJudged is how many sweeps in a row must have been expensive. A walk
	// over many rows costs every sweep its time; what only one of them waited for
	// was the machine, and postponing the next would make late commits pay for it.
	sweepsJudged = 3
	// sweepShare bounds the time spent on expensive sweeps: 1 in 10.
	sweepShare = 10
	// sweepFelt is when a sweep is so slow that it should be rare as well, and
	// sweepRest how rare. A busy publisher claims every few milliseconds: fewer
	// than one claim in a hundred is then a sweep. And a late commit still waits
	// for no longer than a poll and a quarter of a second.
	sweepFelt = 10 * time.Millisecond
	sweepRest = 700 * time.Millisecond
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
// sweeps are cheap every claim is one; once they are not, they get at most a
// tenth of the time, and once they would be felt they are rare.
type cursor struct {
	mu        sync.Mutex
	low       int64
	nextSweep time.Time
	// walks is how much longer than their rows explain the latest sweeps took.
	walks [sweepsJudged]time.Duration
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
	copy(c.walks[1:], c.walks[:])
	c.walks[0] = took - time.Duration(len(rows))*sweepPerRow
	c.nextSweep = now.Add(restAfter(slices.Min(c.walks[:])))
	if now.Add(-took).After(c.rewound) {
		c.rewound = time.Time{}
	}
}

// restAfter is how long claims keep to the hint when sweeps take walk longer
// than their rows explain.
func restAfter(walk time.Duration) time.Duration {
	switch {
	case walk <= sweepCheap:
		return 0
	case walk <= sweepFelt:
		return sweepShare * walk
	default:
		return min(max(sweepShare*walk, sweepRest), sweepPause)
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
