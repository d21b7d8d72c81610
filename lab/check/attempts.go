package check

import "github.com/outboxctl/outboxctl/lab/history"

// attempts is I11: every change of the count has its reason, and the count at the end is their sum.
func (c *checker) attempts(e *event) {
	if len(e.rows) == 0 || e.gapped {
		return
	}
	c.checked("I11")
	sum := 0
	for _, ch := range e.changes {
		kind := kindOf(ch)
		if kind == deleted {
			continue
		}
		if text := c.miscount(kind, e, ch); text != "" {
			c.violate("I11", e.id, "the %s of %s by %s %s: %d attempts, before %d", kind, clock(ch.At), ch.By, text,
				ch.After.Attempts, ch.Before.Attempts)
			return
		}
		switch kind {
		case replayed, other: // what others do is a trespass already
			sum = ch.After.Attempts
		default:
			sum += ch.After.Attempts - ch.Before.Attempts
		}
	}
	if row := e.row(); row.State.Attempts != sum {
		c.violate("I11", e.id, "its row counts %d attempts, recorded are %d", row.State.Attempts, sum)
	}
}

// miscount returns what is wrong with the attempts a change leaves.
func (c *checker) miscount(kind changeKind, e *event, ch *history.Change) string {
	before, after := &ch.Before, &ch.After
	added := after.Attempts - before.Attempts
	if c.overtaken(ch) {
		// Of a run only the head was sent for certain: the end of the lease is charged to it alone.
		if key := e.row().OrderingKey; key != "" && c.heads[turn{ch.TxID, key}] != e.row().Seq {
			if added != 0 {
				return "charged a row that followed another in its run"
			}
			return ""
		}
		if added != 1 {
			return "took over an expired lease without charging one attempt"
		}
		return ""
	}
	switch kind {
	case claim:
		if added != 0 {
			return "charged a row that was not tried"
		}
	case failed, died:
		// A failure that is not the row's own, a topic that is missing say, charges nothing, and an
		// event that cannot be sent at all dies without an attempt.
		if added != 0 && added != 1 {
			return "charged other than one attempt"
		}
		if after.LastError == "" {
			return "left no error"
		}
	case replayed:
		if after.Attempts != 0 {
			return "did not begin again"
		}
	case published, released:
		if added != 0 {
			return "changed the attempts"
		}
	}
	return ""
}
