package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

// lineHeader is the header by which a row of emit --stdin names the producer's line.
const lineHeader = "torture-line"

// event is everything the history knows about one event.
type event struct {
	id       string
	ledger   *history.LedgerRow
	intent   *history.Intent
	tx       *history.Transaction
	rows     []*history.Row
	arrivals []*history.Arrival
	changes  []*history.Change
	letters  []*history.Letter
	handled  []*history.Handled
	effects  []*history.Effect

	// stored are the arrivals the broker kept, oldest first.
	stored []*history.Arrival
	// gapped events lack a change between two recorded ones: their sums prove nothing.
	gapped bool
	listed bool
}

func (e *event) committed() bool { return e.ledger != nil }

func (e *event) expect() history.Expectation {
	if e.intent == nil {
		return history.Deliver
	}
	return e.intent.Expect
}

// row is the event's row, live or removed; nil when it has none.
func (e *event) row() *history.Row {
	if len(e.rows) == 0 {
		return nil
	}
	return e.rows[0]
}

// index is a history by event. events is in the order of the ledger, so that reports do not depend
// on a map's order.
type index struct {
	h       *history.History
	events  []*event
	byID    map[string]*event
	byLine  map[string]*event
	owner   map[string]string // lease owner → application name of its first claim
	ended   map[sweep]bool    // leases that a claim ended because their time was over
	causes  []cause
	handled map[string]bool // event types the consumers act on
	heads   map[turn]int64  // the lowest seq of a run that was claimed
}

// sweep is a transaction that ended the leases of an owner.
type sweep struct {
	tx    int64
	owner string
}

func newIndex(h *history.History) *index {
	x := &index{
		h: h, byID: make(map[string]*event, len(h.Ledger)), byLine: map[string]*event{},
		owner: map[string]string{}, ended: map[sweep]bool{}, handled: map[string]bool{}, heads: map[turn]int64{},
	}
	x.addLines()
	x.addLedger()
	x.addIntents()
	x.addObservations()
	x.learnOwners()
	x.causes = causes(h)
	for _, eventType := range h.Run.HandledTypes {
		x.handled[eventType] = true
	}
	for _, e := range x.events {
		e.arrange()
		x.learnHeads(e)
	}
	return x
}

// addLines gives the rows of emit --stdin, whose ids the producer does not choose, to their lines.
// Several rows of one line are one event with several rows. Nothing is listed yet: the ledger gives
// the order.
func (x *index) addLines() {
	for _, rows := range [][]history.Row{x.h.Rows, x.h.Removed} {
		for i := range rows {
			if line := rows[i].Headers[lineHeader]; line != "" {
				if x.byLine[line] == nil {
					x.byLine[line] = &event{id: rows[i].EventID}
				}
				x.byID[rows[i].EventID] = x.byLine[line]
			}
		}
	}
}

func (x *index) addLedger() {
	for _, row := range x.h.Ledger {
		e := x.event(row.EventID, row.Line)
		e.ledger = &row
		if row.Line != "" && x.byLine[row.Line] == nil {
			x.byLine[row.Line] = e // its row is gone, but its producer knows it by the line only
		}
	}
}

func (x *index) addIntents() {
	for _, tx := range x.h.Transactions {
		for _, intent := range tx.Events {
			e := x.event(intent.EventID, intent.Line)
			e.intent, e.tx = &intent, &tx
		}
	}
}

// event returns the event of an id, which may be known under another one: the first row of its line.
// Without an id it is that of a line, under the line's own name when no row has it.
func (x *index) event(id, line string) *event {
	by, name := x.byID, id
	if id == "" {
		by, name = x.byLine, line
	}
	e := by[name]
	if e == nil {
		e = &event{id: name}
		by[name] = e
	}
	if !e.listed {
		e.listed = true
		x.events = append(x.events, e)
	}
	return e
}

func (x *index) addObservations() {
	rows := func(r *history.Row) *[]*history.Row { return &x.event(r.EventID, "").rows }
	give(x.h.Rows, rows)
	give(x.h.Removed, rows)
	give(x.h.Arrivals, func(a *history.Arrival) *[]*history.Arrival { return &x.event(a.EventID, "").arrivals })
	give(x.h.Changes, func(ch *history.Change) *[]*history.Change { return &x.event(ch.EventID, "").changes })
	give(x.h.Letters, func(l *history.Letter) *[]*history.Letter { return &x.event(l.EventID, "").letters })
	give(x.h.Handled, func(h *history.Handled) *[]*history.Handled { return &x.event(h.EventID, "").handled })
	give(x.h.Effects, func(f *history.Effect) *[]*history.Effect { return &x.event(f.EventID, "").effects })
}

// give appends each observation to the list of its event.
func give[T any](all []T, listOf func(*T) *[]*T) {
	for i := range all {
		list := listOf(&all[i])
		*list = append(*list, &all[i])
	}
}

// learnOwners takes the first claim under an owner for the proof of whose it is.
func (x *index) learnOwners() {
	for _, ch := range x.h.Changes {
		switch kind := kindOf(&ch); {
		case kind == expired:
			x.ended[sweep{ch.TxID, ch.Before.Lease.By}] = true
		case kind == claim && x.owner[ch.After.Lease.By] == "":
			x.owner[ch.After.Lease.By] = ch.By
		}
	}
}

func (e *event) arrange() {
	slices.SortStableFunc(e.arrivals, func(a, b *history.Arrival) int { return a.At.Compare(b.At) })
	slices.SortStableFunc(e.changes, func(a, b *history.Change) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortStableFunc(e.handled, func(a, b *history.Handled) int { return a.At.Compare(b.At) })
	for _, a := range e.arrivals {
		if a.Stored {
			e.stored = append(e.stored, a)
		}
	}
	for i := 1; i < len(e.changes); i++ {
		e.gapped = e.gapped || !follows(&e.changes[i-1].After, &e.changes[i].Before)
	}
}

// follows reports whether the state before a change is the one after the previous change. Times are
// left to the rules that need them: they have been converted from another clock.
func follows(after, before *history.State) bool {
	return after.Lease.By == before.Lease.By && after.Attempts == before.Attempts &&
		after.LastError == before.LastError &&
		after.Published.IsZero() == before.Published.IsZero() &&
		after.Dead.IsZero() == before.Dead.IsZero()
}

// within reports whether two spans of time meet.
func within(from, to, first, last time.Time) bool { return !from.After(last) && !first.After(to) }
