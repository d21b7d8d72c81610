package dispatch

import (
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// produce schedules the producers' transactions: one to three rows each, some
// rolled back, some committed long after others with a larger seq.
func (w *world) produce() {
	for rows := w.plan.rows; rows > 0; {
		n := min(rows, 1+w.rng.IntN(3))
		rows -= n
		key := ""
		if w.chance(w.plan.ordered) {
			key = fmt.Sprint("key ", w.rng.IntN(w.plan.keys))
		}
		w.after(w.between(0, w.plan.chaos), func() { w.transact(n, key) })
	}
}

// transact emits n rows. Who emits for a key has locked what it stands for, and
// waits for others that have.
func (w *world) transact(n int, key string) {
	if key != "" && w.keyLocks[key] {
		w.after(w.between(time.Millisecond, 10*time.Millisecond), func() { w.transact(n, key) })
		return
	}
	w.keyLocks[key] = true
	var rows []*history
	for range n {
		rows = append(rows, w.emit(key))
	}
	hold := w.between(10*time.Microsecond, 20*time.Millisecond)
	if w.suffers(rowLate) {
		hold = w.between(20*time.Millisecond, 8*time.Second)
	}
	if w.suffers(rowRolledBack) {
		w.after(hold, func() {
			w.keyLocks[key] = false
			for _, h := range rows {
				w.say("row %d is rolled back", h.row.Seq)
				w.table.rollBack(h.row)
			}
		})
		return
	}
	w.after(hold, func() {
		w.keyLocks[key] = false
		w.commit(rows)
	})
}

func (w *world) emit(key string) *history {
	kind, eventType := kindGood, []string{"red", "blue"}[w.rng.IntN(2)]
	switch {
	case w.suffers(rowRejected):
		kind = kindRejected
	case w.suffers(rowStubborn):
		kind = kindStubborn
	case w.suffers(rowUnfit):
		kind = rowKind([]outbox.DeadReason{outbox.ReasonUnknownEventType, outbox.ReasonInvalidPayload, outbox.ReasonAggregateMismatch}[w.rng.IntN(3)])
	}
	if kind == rowKind(outbox.ReasonUnknownEventType) {
		eventType = "green"
	}
	if key != "" && kind == kindRejected {
		kind = kindGood // nothing may decide about it, and its key would wait for ever
	}
	row, _ := w.table.insert("", eventType, true)
	row.OrderingKey = key
	switch outbox.DeadReason(kind) {
	case outbox.ReasonInvalidPayload:
		row.Payload = fmt.Appendf(nil, `{"version":1,"eventId":%q,"occurredAt":"2026-01-01T00:00:00Z","data":"poison"}`, row.ID)
	case outbox.ReasonAggregateMismatch:
		row.AggregateType = "other"
	}
	w.say("row %d is emitted: %s, %s %s", row.Seq, eventType, kind, key)
	return w.audit.emitted(row, kind)
}

func (w *world) commit(rows []*history) {
	for _, h := range rows {
		w.say("row %d is committed", h.row.Seq)
		h.row.pending, h.committed = false, true
	}
	if w.suffers(rowRepeated) {
		// The producer has not heard of its commit and emits the same event again.
		if _, inserted := w.table.insert(rows[0].row.ID, rows[0].row.EventType, false); inserted {
			w.audit.violate("I4", "event %s has two rows", rows[0].row.ID)
		}
	}
	for _, p := range w.slots {
		if p.running() && p.armed.Load() && !w.suffers(hintLost) {
			w.after(w.between(10*time.Microsecond, 5*time.Millisecond), func() {
				select {
				case p.hints <- struct{}{}:
				default:
				}
			})
		}
	}
}

// replay is an operator, or two at once, putting back what is dead.
func (w *world) replay() {
	for range 1 + w.rng.IntN(2) {
		for _, h := range w.audit.order {
			if h.row.dead != "" && h.row.OrderingKey != "" && w.chance(0.3) {
				w.discard(h)
			}
			if h.row.dead != "" && w.chance(0.5) && w.table.replay(h.row.ID) {
				w.say("row %d is replayed", h.row.Seq)
				w.audit.replayed(h.row.ID)
			}
		}
	}
}

// discard is an operator who lets a key go on behind a dead row.
func (w *world) discard(h *history) {
	if w.table.discard(h.row.ID) {
		w.say("row %d is discarded", h.row.Seq)
		h.passed = true
	}
}

// discardAll discards, again and again, what keys wait for when the faults are
// over.
func (w *world) discardAll() {
	if w.ending() {
		return
	}
	for _, h := range w.audit.order {
		if h.row.OrderingKey != "" && h.row.dead != "" {
			w.discard(h)
		}
	}
	w.after(100*time.Millisecond, w.discardAll)
}
