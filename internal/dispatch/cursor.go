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
	// sweepSlow is when a sweep is so slow that it should be rare as well, and
	// sweepRest how rare. A busy publisher claims every few milliseconds: fewer
	// than one claim in a hundred is then a sweep. And a late commit still waits
	// for no longer than a poll and a quarter of a second.
	sweepSlow = 10 * time.Millisecond
	sweepRest = 700 * time.Millisecond
	// sweepBacklog is how long claims keep to the hint after a sweep that left rows
	// behind: in a backlog each sweep goes over all leases, and over what others lock.
	sweepBacklog = 50 * time.Millisecond
	// sweepPause is the longest pause between two sweeps. What took long may
	// have been the database and not the walk, and rows below the hint must not
	// wait a hundred seconds for one answer that took ten.
	sweepPause = 5 * time.Second

	// detourStep is how many seq a claim looks at to begin with that leaves out a crowded topic.
	detourStep = 2000

	// windowMin is the narrowest window of a sweep. One that fails all the same is
	// passed over until the next sweep.
	windowMin = 1000
	// orderedMaxSweep is how long a sweep over rows that wait for their turn may keep the
	// others waiting.
	orderedMaxSweep = 8 * time.Millisecond
	// windowMinAlone is the narrowest where there is one worker: a pass over many rows
	// that wait must not take minutes because the machine was slow for a moment.
	windowMinAlone = 10 * windowMin
	// windowMax is the widest.
	windowMax = int64(1) << 40
	// windowFast and windowSlow are the durations outside of which a window is
	// made wider or narrower.
	windowFast = 100 * time.Millisecond
	windowSlow = 500 * time.Millisecond
)

// lateRows is how far below the hint the only worker looks with every claim: most
// rows that are met below it committed a moment after the ones behind them.
const lateRows = 1000

// span is where one claim looks: behind after and, unless through is 0, no
// further than through.
type span struct {
	after, through int64
	// sweep: the claim looks below the hint. window: it is a part of a sweep.
	sweep, window bool
	began         time.Time
	// end is the largest seq that there was before the claim, where its cursor wants
	// to know.
	end int64
}

// short reports whether the claim looks no further than a step, with rows behind that.
func (s span) short() bool { return s.through > 0 && !s.window && s.through < s.end }

// passed is the largest seq that is left to the sweeps when the claim leaves nothing behind.
func (s span) passed() int64 {
	if s.through > 0 {
		return min(s.through, s.end)
	}
	return s.end
}

// cursor decides where the next claim looks.
//
// Rows that are pending but not claimable (backing off, of an unreachable topic,
// leased, or dead index entries that a pinned xmin keeps alive) pile up at the
// head of the claim index, and a claim that starts at the head walks over all
// of them. So a claim normally starts after the largest seq claimed so far.
// That is a hint and never the truth: a low seq can commit late, a retry comes
// due, a lease expires. A sweep, which starts at the head, finds those. While
// sweeps are cheap and leave nothing behind, every claim is one; once they are
// not, they get at most a tenth of the time, and slow ones are rare.
//
// A sweep that fails may have taken longer than a claim is given, and the same
// sweep would fail again for ever. So it is continued in windows of seq, by one
// worker at a time while the others keep to the hint, until a whole pass is fast
// enough for one claim. Where there is one worker only, it does the same with a
// sweep that others would feel.
type cursor struct {
	mu sync.Mutex
	// maxSweep is how long the only worker may take for a sweep before it makes windows
	// of it; 0 where there are several.
	maxSweep  time.Duration
	low       int64
	nextSweep time.Time
	// walks is how much longer than their rows explain the latest sweeps took.
	walks [sweepsJudged]time.Duration
	// lastSweep is when the latest of them ended.
	lastSweep time.Time
	// rewound is when rows below the hint became claimable, until a sweep that
	// was started later has looked at them.
	rewound time.Time

	// step is how many seq a claim looks at that keeps to the hint, and twice as many when that
	// left nothing behind; 0 means all.
	step int64

	// width is how many seq a window has; 0 means that a sweep is one claim.
	width int64
	// at is where the sweep in windows has got to, began and took are when it
	// started at the head and the time it has cost, and sweeping is set while a
	// window is being claimed.
	at       int64
	began    time.Time
	took     time.Duration
	sweeping bool
}

// next returns where the next claim looks. force asks for a sweep, be it due or
// not.
func (c *cursor) next(now time.Time, force bool) span {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := force || !now.Before(c.nextSweep)
	switch {
	case c.width == 0 && (due || c.low == 0 || !c.rewound.IsZero()):
		if c.walks[0] > sweepSlow {
			c.nextSweep = now.Add(c.walks[0]) // the others keep to the hint while one walks that far
		}
		return span{sweep: true, began: now}
	case c.width == 0 || !due || c.sweeping:
		s := span{after: c.start(), began: now}
		if c.step > 0 {
			s.through = s.after + c.step
		}
		return s
	}
	if c.at == 0 {
		c.began, c.took = now, 0
	}
	c.sweeping = true
	s := span{after: c.at, through: c.at + c.width, sweep: true, window: true, began: now}
	if s.through >= c.low {
		s.through = 0
	}
	return s
}

// start is where a claim begins that keeps to the hint.
func (c *cursor) start() int64 {
	if c.maxSweep > 0 {
		return max(c.low-lateRows, 0)
	}
	return c.low
}

// narrowest is the least that a window which did not fail has.
func (c *cursor) narrowest() int64 {
	if c.maxSweep > 0 {
		return windowMinAlone
	}
	return windowMin
}

// done records how many rows a claim found, up to which seq, and whether it left
// something behind. last is 0 where it found nothing. It reports whether that ended a
// sweep: nothing is left between the head and the end.
func (c *cursor) done(s span, now time.Time, more bool, rows int, last int64) (swept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := now.Sub(s.began)
	walk := took - time.Duration(rows)*sweepPerRow
	if last > 0 && !s.window {
		c.low = max(c.low, last)
		if s.sweep && more {
			// Whatever is left lies behind the last row of this sweep, and
			// much of it may lie below where claims had got to.
			c.low = last
		}
	}
	if !more && !s.window {
		c.low = max(c.low, s.passed())
		c.step = min(2*c.step, windowMax)
	}
	switch {
	case !s.sweep:
		return false
	case s.window:
		return c.windowDone(s, now, more, last, walk)
	}
	copy(c.walks[1:], c.walks[:])
	c.walks[0], c.lastSweep = walk, now
	rest := restAfter(slices.Min(c.walks[:]))
	if more && c.maxSweep == 0 {
		rest = max(rest, sweepBacklog)
	}
	c.nextSweep = now.Add(rest)
	if s.began.After(c.rewound) {
		c.rewound = time.Time{}
	}
	if c.maxSweep > 0 && walk > c.maxSweep && c.low > 0 {
		c.width, c.at = max(c.low/int64(walk/c.maxSweep+1), c.narrowest()), 0
	}
	return !more
}

func (c *cursor) windowDone(s span, now time.Time, more bool, last int64, walk time.Duration) (swept bool) {
	fast, slow := windowFast, windowSlow
	if c.maxSweep > 0 {
		fast, slow = c.maxSweep/4, c.maxSweep
	}
	c.sweeping = false
	took := now.Sub(s.began)
	c.took += took
	c.nextSweep = now.Add(restAfter(walk))
	if c.maxSweep > 0 && !c.rewound.IsZero() {
		c.nextSweep = now
	}
	switch {
	case more:
		c.at, c.nextSweep = max(last, c.at), now
		return false
	case s.through > 0:
		c.at = s.through
		if took < fast {
			c.width = min(2*c.width, windowMax)
		} else if took > slow {
			c.width = max(c.width/2, min(c.width, c.narrowest())) // one that failed is narrower
		}
		return false
	}
	c.at = 0
	if c.took < slow {
		c.width = 0
	}
	if c.began.After(c.rewound) {
		c.rewound = time.Time{}
	} else {
		c.nextSweep = now
	}
	return true
}

// failed records a claim that failed, so that the next sweep is a smaller one,
// or looks elsewhere. end is the largest seq there is, or 0 if that is not
// known: what is below it is left to the sweeps.
func (c *cursor) failed(s span, now time.Time, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.low = max(c.low, end)
	if !s.sweep && end == 0 {
		return
	}
	c.nextSweep = now.Add(restAfter(now.Sub(s.began)))
	switch {
	case c.width == 0 && c.low > 0:
		c.width, c.at = max(c.low/4, windowMin), 0
	case s.window && c.width > windowMin:
		c.width = max(c.width/4, windowMin)
	case s.window:
		c.at = s.through // the next window, or the head again
	}
	if s.window {
		c.sweeping = false
	}
}

// found records that there is something to claim where s looks: the claim that follows looks there too.
func (c *cursor) found(s span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.window:
		c.sweeping = false
	case s.sweep:
		c.nextSweep = s.began
	}
}

// blind reports that there is no hint yet.
func (c *cursor) blind() bool { return c.hint() == 0 }

// hint is the largest seq that claims have got to, or 0.
func (c *cursor) hint() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.low
}

// creep makes claims that keep to the hint look at a few rows first.
func (c *cursor) creep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = detourStep
}

// pass makes claims start behind a seq. What is below it is left to the sweeps.
func (c *cursor) pass(seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.low = max(c.low, seq)
}

// restart makes the next sweep begin at the head.
func (c *cursor) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = 0
}

// restAfter is how long claims keep to the hint when sweeps take walk longer
// than their rows explain.
func restAfter(walk time.Duration) time.Duration {
	switch {
	case walk <= sweepCheap:
		return 0
	case walk <= sweepSlow:
		return sweepShare * walk
	default:
		return min(max(sweepShare*walk, sweepRest), sweepPause)
	}
}

// sweepSooner brings the next sweep forward: a topic that claims have passed over has
// room again. Unlike a rewind this happens over and over while the topic has a
// backlog, so sweeps get half of the time and not all of it.
func (c *cursor) sweepSooner() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if soon := c.lastSweep.Add(max(slices.Min(c.walks[:]), 0)); soon.Before(c.nextSweep) {
		c.nextSweep = soon
	}
}

// rationed reports whether the next claim does not look at everything.
func (c *cursor) rationed(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.width > 0 || now.Before(c.nextSweep) && c.rewound.IsZero()
}

// rewind makes the next claim a sweep: rows below the hint may have become
// claimable. A claim that is under way has not seen them, and does not undo
// this. A sweep in windows is begun again when it has ended.
func (c *cursor) rewind(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rewound = now
	if c.maxSweep > 0 {
		c.nextSweep = now
	}
}
