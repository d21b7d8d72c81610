package check

import (
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

// clockError is what the conversion from the database's clock may be off by.
const clockError = time.Millisecond

// longestClaim is how long a claim may wait for locks: its lease counts from its beginning.
const longestClaim = 30 * time.Second

// owners is I10 for the owners themselves: two publishers under one owner would pass each other's
// fences.
func (c *checker) owners() {
	told := map[string]bool{}
	for _, ch := range c.h.Changes {
		by := ch.After.Lease.By
		if kindOf(&ch) == claim && c.owner[by] != ch.By && !told[by] {
			told[by] = true
			c.violate("I10", ch.EventID, "both %s and %s claim as owner %s", c.owner[by], ch.By, by)
		}
	}
}

// leases is I10: who may change a row, and when.
func (c *checker) leases(e *event) {
	for _, ch := range e.changes {
		c.checked("I10")
		if text := c.trespass(ch); text != "" {
			c.violate("I10", e.id, "%s of %s by %s", text, clock(ch.At), ch.By)
			return // what follows is the consequence
		}
	}
}

func (c *checker) trespass(ch *history.Change) string {
	kind := kindOf(ch)
	switch before := &ch.Before; {
	case kind == deleted: // I15 says which rows may be
		return ""
	case !before.Published.IsZero():
		return "a published row was changed: a " + kind.String()
	case isOperator(ch.By):
		if before.Dead.IsZero() {
			return "a row that is not dead was changed"
		}
		return ""
	case !before.Dead.IsZero():
		return "a dead row was changed: a " + kind.String()
	case c.overtaken(ch) && before.Lease.Until.After(ch.At.Add(clockError)):
		return "a row was taken while " + c.holder(before) + " held it until " + clock(before.Lease.Until) + ": the " + kind.String()
	case kind == claim:
		return c.leaseLength(ch)
	case c.overtaken(ch):
		return ""
	case before.Lease.By == "":
		return "a row was settled that was not leased: the " + kind.String()
	case c.owner[before.Lease.By] != ch.By:
		return "a row was settled that " + c.holder(before) + " held: the " + kind.String()
	case !kind.settles():
		return "a row was changed in a way no statement does, the change"
	}
	return ""
}

// leaseLength returns what is wrong with the end of a new lease. One that was taken from another
// clock than the database's ends when it is not expected.
func (c *checker) leaseLength(ch *history.Change) string {
	length := ch.After.Lease.Until.Sub(ch.At)
	if length > c.h.Run.Lease+clockError || length < c.h.Run.Lease-longestClaim {
		return fmt.Sprintf("a row was leased for %s instead of %s: the claim", length, c.h.Run.Lease)
	}
	return ""
}

func (c *checker) holder(s *history.State) string {
	if name := c.owner[s.Lease.By]; name != "" {
		return name + " (" + s.Lease.By + ")"
	}
	return s.Lease.By
}

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
