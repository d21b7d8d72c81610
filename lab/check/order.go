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
