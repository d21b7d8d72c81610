package dispatch

import (
	"strings"
	"sync"
	"time"
)

// detours has the cursors of claims that leave out crowded topics.
//
// Such a claim walks over all that the crowded topics have waiting, which can be
// the whole backlog, mostly to find nothing. With a hint of its own it walks once
// and then looks behind the end only; and the hint of the other claims stays where
// the crowded topics go on when they have room again. Most have room again in a moment:
// so the walk is made in steps, which begin small and double while they stay crowded.
type detours struct {
	mu      sync.Mutex
	cursors map[string]*cursor
}

// of returns the cursor of claims that leave out these topics: all, the one of
// claims of everything, where there are none. Sweeps of the others walk over the
// backlog as well: they begin late, and one that is expensive makes the next rare.
func (d *detours) of(crowded []string, all *cursor, now time.Time) *cursor {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(crowded) == 0 {
		for _, c := range d.cursors {
			c.creep()
		}
		return all
	}
	key := strings.Join(crowded, " ")
	c := d.cursors[key]
	if c == nil {
		if d.cursors == nil {
			d.cursors = map[string]*cursor{}
		}
		c = &cursor{nextSweep: now.Add(sweepRest), step: detourStep}
		for i := range c.walks {
			c.walks[i] = sweepPause
		}
		d.cursors[key] = c
	}
	c.pass(all.hint())
	return c
}

func (d *detours) rewind(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.cursors {
		c.rewind(now)
	}
}
