package dispatch

import (
	"strings"
	"sync"
	"time"
)

// around has the cursors of claims that leave out crowded topics.
//
// Such a claim walks over all that the crowded topics have waiting, which can be
// the whole backlog, mostly to find nothing. With a hint of its own it walks once
// and then looks behind the end only; and the hint of the other claims stays where
// the crowded topics go on when they have room again.
type around struct {
	mu      sync.Mutex
	cursors map[string]*cursor
}

// of returns the cursor of claims that leave out these topics: all, the one of
// claims of everything, where there are none. Sweeps of the others walk over the
// backlog as well: they begin late, and one that is expensive makes the next rare.
func (a *around) of(crowded []string, all *cursor, now time.Time) *cursor {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(crowded) == 0 {
		return all
	}
	key := strings.Join(crowded, " ")
	c := a.cursors[key]
	if c == nil {
		if a.cursors == nil {
			a.cursors = map[string]*cursor{}
		}
		c = &cursor{nextSweep: now.Add(sweepRest), walks: [sweepsJudged]time.Duration{sweepPause, sweepPause, sweepPause}}
		a.cursors[key] = c
	}
	c.pass(all.hint())
	return c
}

func (a *around) rewind(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.cursors {
		c.rewind(now)
	}
}
