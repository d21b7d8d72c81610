package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Outcome is the result of one attempt to publish a row.
type Outcome uint8

// The outcomes of an attempt.
const (
	OutcomePublished Outcome = iota
	OutcomeFailed
	OutcomeDead
	// OutcomeReleased: the row lost no attempt, because the cause was its topic,
	// the shutdown, or a lack of time.
	OutcomeReleased
)

func (o Outcome) String() string {
	switch o {
	case OutcomePublished:
		return "published"
	case OutcomeFailed:
		return "failed"
	case OutcomeDead:
		return "dead"
	default:
		return "released"
	}
}

// Attempt is one row's outcome, as logs and metrics see it.
type Attempt struct {
	Row     *Claimed
	Topic   string
	Outcome Outcome
	// Number is this attempt's own, from 1: the attempts the row has lost, and
	// this one. Of a row that was not offered to the broker it is only the
	// former.
	Number int
	Reason outbox.DeadReason
	// Delay is the wait before the next attempt.
	Delay time.Duration
	Err   error
}

// ClaimReport is one claim.
type ClaimReport struct {
	Rows  int
	Sweep bool
	Took  time.Duration
	Err   error
}

// SettleReport is one settle.
type SettleReport struct {
	Rows    int
	Settled Settled
	// Lost rows carried another lease by the time they were settled.
	Lost int
	Took time.Duration
	Err  error
}

// Observer is told what the dispatcher does. Its methods are called from many
// goroutines and must not block.
type Observer interface {
	Claimed(ClaimReport)
	// Published reports one request: how long the broker took and what became
	// of each row.
	Published(topic string, took time.Duration, attempts []Attempt)
	Settled(SettleReport)
	TopicChanged(TopicReport)
	// Trouble is an error that no row and no topic is to blame for.
	Trouble(doing string, err error)
}

// Observers passes everything on to several observers, in order.
type Observers []Observer

// Claimed implements Observer.
func (os Observers) Claimed(r ClaimReport) {
	for _, o := range os {
		o.Claimed(r)
	}
}

// Published implements Observer.
func (os Observers) Published(topic string, took time.Duration, attempts []Attempt) {
	for _, o := range os {
		o.Published(topic, took, attempts)
	}
}

// Settled implements Observer.
func (os Observers) Settled(r SettleReport) {
	for _, o := range os {
		o.Settled(r)
	}
}

// TopicChanged implements Observer.
func (os Observers) TopicChanged(s TopicReport) {
	for _, o := range os {
		o.TopicChanged(s)
	}
}

// Trouble implements Observer.
func (os Observers) Trouble(doing string, err error) {
	for _, o := range os {
		o.Trouble(doing, err)
	}
}

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

// GoOn makes a dispatcher that has not run yet count from what the one before it has done.
func (d *Dispatcher) GoOn(done Totals) {
	d.totals.published.Store(done.Published)
	d.totals.failed.Store(done.Failed)
	d.totals.dead.Store(done.Dead)
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
