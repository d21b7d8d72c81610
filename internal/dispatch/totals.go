package dispatch

import (
	"context"
	"sync/atomic"
	"time"
)

// Totals is what a dispatcher has done since its start.
type Totals struct {
	Published, Failed, Dead int64
	// Held is how many rows a run with Once has left leased, until HeldUntil: the
	// reply to a claim was lost, so that it never had them, or a verdict could not
	// be recorded. Another publisher gets them when the lease has ended. -1 means
	// that the database did not tell.
	Held      int
	HeldUntil time.Time
}

// totals counts outcomes.
type totals struct {
	published, failed, dead atomic.Int64
	// held and heldUntil are written by Run before it returns.
	held      int
	heldUntil time.Time
}

func (t *totals) count(attempts []Attempt) {
	var n [OutcomeReleased + 1]int64
	for i := range attempts {
		n[attempts[i].Outcome]++
	}
	t.published.Add(n[OutcomePublished])
	t.failed.Add(n[OutcomeFailed])
	t.dead.Add(n[OutcomeDead])
}

// Totals reports what the dispatcher has done. It is complete when Run has
// returned.
func (d *Dispatcher) Totals() Totals {
	return Totals{
		Published: d.totals.published.Load(), Failed: d.totals.failed.Load(), Dead: d.totals.dead.Load(),
		Held: d.totals.held, HeldUntil: d.totals.heldUntil,
	}
}

// countHeld asks which rows stay leased at the end of a run. The dispatcher does
// not know of those whose claim it was not answered.
func (d *Dispatcher) countHeld(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	var err error
	if d.totals.held, d.totals.heldUntil, err = d.store.Held(ctx); err != nil {
		d.observe.Trouble("count the leases that are left", err)
		d.totals.held = -1
	}
}
