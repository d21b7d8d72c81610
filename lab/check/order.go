package check

import (
	"cmp"
	"maps"
	"slices"

	"github.com/outboxctl/outboxctl/lab/history"
)

// turn is one claim of an ordering key.
type turn struct {
	tx  int64
	key string
}

// learnHeads notes with which row each claim of a key began.
func (x *index) learnHeads(e *event) {
	row := e.row()
	if row == nil || row.OrderingKey == "" {
		return
	}
	for _, ch := range e.changes {
		if kindOf(ch) != claim {
			continue
		}
		at := turn{ch.TxID, row.OrderingKey}
		if first, known := x.heads[at]; !known || row.Seq < first {
			x.heads[at] = row.Seq
		}
	}
}

// order is I5: the events of an ordering key are first stored in the order of their seq, and nothing is stored behind one
// that never was. Events that an operator has ever discarded have no place.
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
		c.orderOf(events)
	}
	c.requests()
}

func (c *checker) orderOf(events []*event) {
	var last, missing *event
	for _, e := range events {
		c.checked("I5")
		if slices.ContainsFunc(e.changes, func(ch *history.Change) bool { return !ch.After.Passed.IsZero() }) {
			continue
		}
		switch first := e.firstStored(); {
		case first == nil:
			missing = e
		case missing != nil:
			c.violate("I5", e.id, "was stored at %s although %s, which is before it in %s, never was", clock(first.At), missing.id, e.row().OrderingKey)
			return
		case last != nil && first.Order < last.firstStored().Order:
			c.violate("I5", e.id, "was first stored at %s, before %s at %s, which is before it in %s", clock(first.At), last.id,
				clock(last.firstStored().At), e.row().OrderingKey)
			return
		default:
			last = e
		}
	}
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
	for i := range c.h.Arrivals {
		a := &c.h.Arrivals[i]
		if first, known := keys[a.Request]; known && first != a.OrderingKey {
			c.violate("I5", a.EventID, "was sent at %s in one request with another ordering key", clock(a.At))
		}
		keys[a.Request] = a.OrderingKey
		if e := c.byID[a.EventID]; e != nil && e.row() != nil && e.row().OrderingKey != a.OrderingKey {
			c.violate("I5", a.EventID, "was sent at %s with the ordering key %q, its row has %q", clock(a.At), a.OrderingKey, e.row().OrderingKey)
		}
	}
}
