package check

import "github.com/outboxctl/outboxctl/lab/history"

// transactionTruth is I3 for one event: what the producer saw of its transaction and what the
// ledger has.
func (c *checker) transactionTruth(e *event) {
	switch {
	case e.intent == nil && !e.committed():
		return // its rows and messages are the other rules' business
	case e.intent == nil:
		c.violate("I3", e.id, "in the ledger, but no producer meant to emit it")
		return
	}
	c.checked("I3")
	switch {
	case e.intent.Expect == history.Retract && e.committed():
		c.violate("I3", e.id, "rolled back to a savepoint in transaction %s, but it is in the ledger", e.tx.ID)
	case e.intent.Expect == history.Retract:
	case e.tx.Outcome == history.Committed && !e.committed():
		c.violate("I3", e.id, "the commit of transaction %s (%s) was acknowledged, but it is not in the ledger", e.tx.ID, e.tx.How)
	case e.tx.Outcome == history.RolledBack && e.committed():
		c.violate("I3", e.id, "transaction %s (%s) was rolled back, but it is in the ledger", e.tx.ID, e.tx.How)
	}
}

// halfTransactions is I3 for transactions whose end was not seen: all of it or nothing.
func (c *checker) halfTransactions() {
	for _, tx := range c.h.Transactions {
		if tx.Outcome != history.Unknown {
			continue
		}
		var kept, meant int
		var lost *event
		for _, intent := range tx.Events {
			if intent.Expect == history.Retract {
				continue
			}
			meant++
			if e := c.event(intent.EventID, intent.Line); e.committed() {
				kept++
			} else if lost == nil {
				lost = e
			}
		}
		if kept > 0 && lost != nil {
			c.violate("I3", lost.id, "transaction %s (%s) is in the ledger with %d of its %d events", tx.ID,
				tx.How, kept, meant)
		}
	}
}

// oneRow is I4.
func (c *checker) oneRow(e *event) {
	if len(e.rows) == 0 && !e.committed() {
		return
	}
	c.checked("I4")
	switch {
	case !e.committed():
		c.violate("I4", e.id, "has %d rows but is not in the ledger: %s", len(e.rows), e.origin())
	case len(e.rows) == 0:
		c.violate("I4", e.id, "is in the ledger (transaction %s) but has no row; the broker stored it %d times", e.ledger.TxID, len(e.stored))
	case len(e.rows) > 1:
		c.violate("I4", e.id, "has %d rows", len(e.rows))
	}
}

// origin returns what is known of an uncommitted event.
func (e *event) origin() string {
	if e.tx == nil {
		return "no producer knows it"
	}
	if e.intent.Expect == history.Retract {
		return "it was rolled back to a savepoint in transaction " + e.tx.ID
	}
	return "transaction " + e.tx.ID + " ended as " + string(e.tx.Outcome)
}

// stored is I1. An event without a row is I4's, one whose row is dead I7's, one that is pending
// I9's as well; what none of them can see is an event that counts as published and never reached
// the broker.
func (c *checker) stored(e *event) {
	if !e.committed() || e.expect() != history.Deliver {
		return
	}
	c.checked("I1")
	row := e.row()
	if len(e.stored) == 0 && row != nil && row.State.Dead.IsZero() {
		c.violate("I1", e.id, "was committed in transaction %s and never stored by the broker (%s)",
			e.ledger.TxID, describe(row))
	}
}

func describe(row *history.Row) string {
	switch {
	case row == nil:
		return "it has no row"
	case !row.State.Published.IsZero():
		return "its row says published as message " + row.State.MessageID
	case !row.State.Dead.IsZero():
		return "its row is dead: " + row.State.LastError
	case row.State.Lease.By != "":
		return "its row is leased by " + row.State.Lease.By
	default:
		return "its row is pending, last error: " + row.State.LastError
	}
}

// uncommitted is I2.
func (c *checker) uncommitted(e *event) {
	if len(e.arrivals)+len(e.effects)+len(e.handled) == 0 {
		return
	}
	c.checked("I2")
	if e.committed() {
		return
	}
	c.violate("I2", e.id, "is not in the ledger (%s) but was sent %d times, handled %d times and has %d effects",
		e.origin(), len(e.arrivals), len(e.handled), len(e.effects))
}
