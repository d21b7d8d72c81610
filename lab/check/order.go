package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

// turn is what one claim did to an ordering key.
type turn struct {
	tx  int64
	key string
}

// learnHeads notes which row of a key came first in each lease that a claim took over.
func (x *index) learnHeads(e *event) {
	row := e.row()
	if row == nil || row.OrderingKey == "" {
		return
	}
	for _, ch := range e.changes {
		if !x.overtaken(ch) {
			continue
		}
		at := turn{ch.TxID, row.OrderingKey}
		if first, known := x.heads[at]; !known || row.Seq < first {
			x.heads[at] = row.Seq
		}
	}
}

// order is I5: the events of an ordering key are first stored in the order of their seq, and
// nothing is stored or claimed behind one that is neither published nor discarded. Keys whose
// producers emit before they lock have no order to keep.
func (c *checker) order() {
	keys := map[string][]*event{}
	for _, e := range c.events {
		if row := e.row(); row != nil && row.OrderingKey != "" {
			keys[row.OrderingKey] = append(keys[row.OrderingKey], e)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		events := keys[key]
		slices.SortFunc(events, func(a, b *event) int { return cmp.Compare(a.row().Seq, b.row().Seq) })
		if loose := c.h.Run.LooseKeys; loose != "" && strings.HasPrefix(key, loose) {
			add(&c.report.Figures.Order, "loose events", len(events))
			continue
		}
		c.report.Checked["I5"] += len(events)
		if c.storedInOrder(events) {
			c.claimedInOrder(events)
		}
	}
	c.passes()
	c.requests()
}

// storedInOrder looks at the first message of each event of a key.
func (c *checker) storedInOrder(events []*event) bool {
	var last, missing *event
	var passed []*event // ever: they have no place from then on
	for _, e := range events {
		first := e.firstStored()
		if first != nil {
			if before := behind(first, last, missing, passed); before != nil {
				c.violate("I5", e.id, "was first stored at %s although %s, which is before it in %s, was not stored until %s", clock(first.At),
					before.id, e.row().OrderingKey, clock(before.firstStoredAt()))
				return false
			}
		}
		switch {
		case e.passedBefore(c.h.Run.Ended):
			passed = append(passed, e)
		case first == nil:
			missing = e
		default:
			last = e
		}
	}
	return true
}

// sendError is what the times of a message and of a row's change may be apart: they are taken by
// two clocks.
const sendError = 500 * time.Millisecond

// behind returns an earlier event of the key that should have been stored before a message was.
func behind(first *history.Arrival, last, missing *event, passed []*event) *event {
	switch {
	case missing != nil:
		return missing
	case last != nil && first.Order < last.firstStored().Order:
		return last
	}
	for _, p := range passed {
		if own := p.firstStored(); (own == nil || first.Order < own.Order) &&
			!p.passedBefore(first.At.Add(sendError)) {
			return p
		}
	}
	return nil
}

// passedBefore reports whether an operator had discarded the event by then, whatever became of it
// later.
func (e *event) passedBefore(then time.Time) bool {
	return slices.ContainsFunc(e.changes,
		func(ch *history.Change) bool { return !ch.After.Passed.IsZero() && !ch.At.After(then) })
}

func (e *event) firstStoredAt() time.Time {
	if first := e.firstStored(); first != nil {
		return first.At
	}
	return time.Time{}
}

// firstStored is the message of an event that the broker has stored first; nil: it has none.
func (e *event) firstStored() *history.Arrival {
	if len(e.stored) == 0 {
		return nil
	}
	return slices.MinFunc(e.stored, func(a, b *history.Arrival) int { return cmp.Compare(a.Order, b.Order) })
}

// requests is I5 for what is sent: a message has the key of its row, and a request one key.
func (c *checker) requests() {
	keys := map[int]string{}
	for _, a := range c.h.Arrivals {
		if first, known := keys[a.Request]; known && first != a.OrderingKey {
			c.violate("I5", a.EventID, "was sent at %s in one request with another ordering key",
				clock(a.At))
		}
		keys[a.Request] = a.OrderingKey
		if e := c.byID[a.EventID]; e != nil && e.row() != nil && e.row().OrderingKey != a.OrderingKey {
			c.violate("I5", a.EventID, "was sent at %s with the ordering key %q, its row has %q",
				clock(a.At), a.OrderingKey, e.row().OrderingKey)
		}
	}
}

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
