package dispatch

import (
	"context"
	"sync"
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
	return [...]string{"published", "failed", "dead", "released"}[o]
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

func (os Observers) each(tell func(Observer)) {
	for _, o := range os {
		tell(o)
	}
}

// Claimed implements Observer.
func (os Observers) Claimed(r ClaimReport) { os.each(func(o Observer) { o.Claimed(r) }) }

// Published implements Observer.
func (os Observers) Published(topic string, took time.Duration, attempts []Attempt) {
	os.each(func(o Observer) { o.Published(topic, took, attempts) })
}

// Settled implements Observer.
func (os Observers) Settled(r SettleReport) { os.each(func(o Observer) { o.Settled(r) }) }

// TopicChanged implements Observer.
func (os Observers) TopicChanged(s TopicReport) { os.each(func(o Observer) { o.TopicChanged(s) }) }

// Trouble implements Observer.
func (os Observers) Trouble(doing string, err error) {
	os.each(func(o Observer) { o.Trouble(doing, err) })
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

type totals struct {
	mu sync.Mutex
	Totals
}

func (t *totals) count(attempts []Attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range attempts {
		switch attempts[i].Outcome {
		case OutcomePublished:
			t.Published++
		case OutcomeFailed:
			t.Failed++
		case OutcomeDead:
			t.Dead++
		}
	}
}

// Totals reports what the dispatcher has done. It is complete when Run has
// returned.
func (d *Dispatcher) Totals() Totals {
	d.totals.mu.Lock()
	defer d.totals.mu.Unlock()
	return d.totals.Totals
}

// GoOn makes a dispatcher that has not run yet count from what the one before it has done.
func (d *Dispatcher) GoOn(done Totals) { d.totals.Totals = done }

// countHeld asks which rows stay leased at the end of a run. The dispatcher does
// not know of those whose claim it was not answered.
func (d *Dispatcher) countHeld(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	held, until, err := d.store.Held(ctx)
	if err != nil {
		d.observe.Trouble("count the leases that are left", err)
		held = -1
	}
	d.totals.mu.Lock()
	defer d.totals.mu.Unlock()
	d.totals.Held, d.totals.HeldUntil = held, until
}
