package check_test

import (
	"slices"

	"github.com/outboxctl/outboxctl/lab/history"
)

// What the corruptions of the clean run are made of. Each panics when there is nothing to corrupt: a corruption that does
// nothing would make its test pass for the wrong reason.

func find[T any](list []T, match func(*T) bool) *T {
	for i := range list {
		if match(&list[i]) {
			return &list[i]
		}
	}
	panic("nothing to corrupt")
}

func drop[T any](list *[]T, match func(*T) bool) {
	before := len(*list)
	*list = slices.DeleteFunc(*list, func(v T) bool { return match(&v) })
	if len(*list) == before {
		panic("nothing to drop")
	}
}

func rowOf(h *history.History, id string) *history.Row {
	return find(h.Rows, func(r *history.Row) bool { return r.EventID == id })
}

func arrivalOf(h *history.History, id string) *history.Arrival {
	return find(h.Arrivals, func(a *history.Arrival) bool { return a.EventID == id })
}

func letterOf(h *history.History, id, state string) *history.Letter {
	return find(h.Letters, func(l *history.Letter) bool { return l.EventID == id && l.State == state })
}

func effectOf(h *history.History, consumer, id string) *history.Effect {
	return find(h.Effects, func(e *history.Effect) bool { return e.Consumer == consumer && e.EventID == id })
}

// changeOf is the nth change of an event, from 0.
func changeOf(h *history.History, id string, n int) *history.Change {
	return find(h.Changes, func(ch *history.Change) bool {
		if ch.EventID == id {
			n--
		}
		return ch.EventID == id && n < 0
	})
}

// forget removes every trace of an event from the system, as if it had never been.
func forget(h *history.History, id string) {
	drop(&h.Rows, func(r *history.Row) bool { return r.EventID == id })
	drop(&h.Arrivals, func(a *history.Arrival) bool { return a.EventID == id })
	drop(&h.Changes, func(ch *history.Change) bool { return ch.EventID == id })
	drop(&h.Handled, func(r *history.Handled) bool { return r.EventID == id })
	drop(&h.Effects, func(e *history.Effect) bool { return e.EventID == id })
}

// unledger takes an event out of the ledger.
func unledger(h *history.History, id string) {
	drop(&h.Ledger, func(l *history.LedgerRow) bool { return l.EventID == id })
}

// again appends a copy of an event's first message, that much later.
func again(h *history.History, id, messageID string) *history.Arrival {
	copied := *arrivalOf(h, id)
	copied.MessageID = messageID
	h.Arrivals = append(h.Arrivals, copied)
	return &h.Arrivals[len(h.Arrivals)-1]
}

// insert adds a change after the nth one of an event.
func insert(h *history.History, id string, n int, edit func(before history.State, ch *history.Change)) {
	last := changeOf(h, id, n)
	ch := history.Change{At: last.At.Add(soon), Seq: last.Seq, TxID: last.TxID + 1000, EventID: id, By: last.By, Before: last.After, After: last.After}
	edit(last.After, &ch)
	h.Changes = append(h.Changes, ch)
}
