package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

// reopenError is how long a restore may take from the row it reopens to its commit, which a claim
// sees when it begins.
const reopenError = 2 * time.Second

// What happened to ordering keys, as the figures name it.
const (
	OrderDeaths   = "deaths"
	OrderParked   = "parked events"
	OrderReplays  = "replays"
	OrderDiscards = "discards"
	OrderRestores = "restores"
	OrderExpired  = "expired runs"
)

// place is the row of an ordering key while its changes are gone through.
type place struct {
	*event
	closed bool      // published or passed
	opened time.Time // when it was reopened last
	dead   bool      // since it was open last
	seen   bool      // claimed before
}

// keyWalk goes through the changes of one ordering key in the order in which they happened.
type keyWalk struct {
	*checker
	places  []*place
	indexOf map[string]int // of an event's place
	runs    map[int64]map[int]bool
	// head is the first place that may be open.
	head int
	// freed is when the last dead event of the key was published or passed.
	freed time.Time
}

// claimedInOrder looks at each claim of a key: all that is before the claimed row is closed, or
// claimed with it.
func (c *checker) claimedInOrder(events []*event) {
	w := &keyWalk{checker: c, indexOf: map[string]int{}, runs: map[int64]map[int]bool{}}
	var changes []*history.Change
	for i, e := range events {
		if e.gapped {
			return // what is missing may have closed it
		}
		w.places, w.indexOf[e.id] = append(w.places, &place{event: e}), i
		changes = append(changes, e.changes...)
		for _, ch := range e.changes {
			if kindOf(ch) == claim {
				if w.runs[ch.TxID] == nil {
					w.runs[ch.TxID] = map[int]bool{}
				}
				w.runs[ch.TxID][i] = true
			}
		}
	}
	slices.SortFunc(changes, func(a, b *history.Change) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, ch := range changes {
		if !w.step(w.indexOf[c.byID[ch.EventID].id], ch) {
			return // what follows is the consequence
		}
	}
}

// step takes one change, and returns false when it breaks the order.
func (w *keyWalk) step(i int, ch *history.Change) bool {
	p := w.places[i]
	if w.overtaken(ch) && w.heads[turn{ch.TxID, p.row().OrderingKey}] == p.row().Seq {
		add(&w.report.Figures.Order, OrderExpired, 1)
	}
	switch kindOf(ch) {
	case claim:
		if ahead := w.openBefore(i, ch); ahead != nil {
			w.violate("I5", p.id, "was claimed by %s at %s although %s, which is before it in %s, was neither published nor discarded", ch.By,
				clock(ch.At), ahead.id, p.row().OrderingKey)
			return false
		}
		w.count(p, ch)
	case died:
		p.dead = true
		add(&w.report.Figures.Order, OrderDeaths, 1)
	case replayed:
		add(&w.report.Figures.Order, OrderReplays, 1)
	}
	closed := !ch.After.Published.IsZero() || !ch.After.Passed.IsZero() || ch.Deleted
	switch {
	case closed && !p.closed:
		if p.dead {
			w.freed = ch.At
		}
		p.dead = false
	case !closed && p.closed:
		p.opened, w.head = ch.At, min(w.head, i)
		p.dead = !ch.After.Dead.IsZero()
	}
	p.closed = closed
	return true
}

// openBefore returns an open row before a claimed one that was not claimed with it.
func (w *keyWalk) openBefore(i int, ch *history.Change) *place {
	began := ch.After.Lease.Until.Add(-w.h.Run.Lease) // a lease counts from there, however long the claim took
	for w.head < i && w.places[w.head].closed {
		w.head++
	}
	for j := w.head; j < i; j++ {
		p := w.places[j]
		if !p.closed && !w.runs[ch.TxID][j] && began.Sub(p.opened) > reopenError {
			return p
		}
	}
	return nil
}

// count notes what a claim tells: that the row was parked behind a dead one.
func (w *keyWalk) count(p *place, ch *history.Change) {
	if created, err := time.Parse(time.RFC3339Nano, p.row().CreatedAt); err == nil && !p.seen &&
		created.Add(-w.h.Run.ClockSkew).Before(w.freed) {
		add(&w.report.Figures.Order, OrderParked, 1)
	}
	p.seen = true
}

// passes is I5 for operators: each discard lets the key of its event go on, and each restore holds
// it again.
func (c *checker) passes() {
	discards, restores := c.named(actionDiscard), c.named(actionRestore)
	for _, e := range c.events {
		row := e.row()
		if row == nil || row.OrderingKey == "" || e.gapped {
			continue
		}
		let, held := 0, 0
		for _, ch := range e.changes {
			switch before, after := ch.Before.Passed.IsZero(), ch.After.Passed.IsZero(); {
			case ch.Deleted:
			case before && !after:
				let++
			case !before && after && kindOf(ch) != replayed:
				held++
			}
		}
		add(&c.report.Figures.Order, OrderDiscards, let)
		add(&c.report.Figures.Order, OrderRestores, held)
		if n := discards[row.EventID]; n != let {
			c.violate("I5", e.id, "was discarded %d times, its ordering key was let go on %d times", n, let)
		}
		if n := restores[row.EventID]; n != held {
			c.violate("I5", e.id, "was restored %d times, its ordering key was held again %d times", n, held)
		}
	}
}

// named counts how often each event is named by the audit rows of an action.
func (c *checker) named(action string) map[string]int {
	n := map[string]int{}
	for _, a := range c.h.Audits {
		if a.Action == action {
			for _, id := range texts(a.Detail["eventIds"]) {
				n[id]++
			}
		}
	}
	return n
}
