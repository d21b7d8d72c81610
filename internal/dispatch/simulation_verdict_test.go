package dispatch

import (
	"errors"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// settled is a settle that has committed, and the rows it changed.
func (a *audit) settled(p *process, v Verdicts, kept []change) {
	accepted := map[Key]bool{}
	for _, c := range kept {
		accepted[c.key] = true
	}
	a.stale += v.Len() - len(kept)
	for _, x := range v.Published {
		if l := a.accept(p, x.Key, accepted); l != nil {
			a.holdPublished(l, x)
		}
	}
	for _, x := range v.Failed {
		if l := a.accept(p, x.Key, accepted); l != nil {
			a.holdFailed(l, x)
		}
	}
	for _, x := range v.Dead {
		if l := a.accept(p, x.Key, accepted); l != nil {
			a.holdDead(l, x)
		}
	}
	for _, k := range v.Released {
		if l := a.accept(p, k, accepted); l != nil && l.offered && l.row.row.OrderingKey == "" {
			a.violate("I12", "row %d is given back by %s although the broker may still store it", l.row.row.Seq, p.name)
		}
	}
}

// accept returns the lease of a verdict that was accepted, and ends it.
func (a *audit) accept(p *process, k Key, accepted map[Key]bool) *lease {
	if !accepted[k] {
		return nil
	}
	h, l := a.rows[k.ID], a.find(k, p)
	if l == nil || l != h.current || l.over {
		a.violate("I10", "row %d: a verdict of %s is accepted, who has lost the lease", h.row.Seq, p.name)
		return nil
	}
	l.over = true
	return l
}

func (a *audit) holdPublished(l *lease, x Published) {
	switch {
	case !l.heard || l.answer != nil:
		a.violate("I1", "row %d is marked published without an acknowledgement", l.row.row.Seq)
	case l.messageID != x.MessageID:
		a.violate("I8", "row %d is marked with message id %s, the broker said %s", l.row.row.Seq, x.MessageID, l.messageID)
	}
}

func (a *audit) holdFailed(l *lease, x Failed) {
	h := l.row
	refused := l.heard && l.answer != nil
	if x.Free {
		if l.offered && (!refused || (ClassOf(l.answer) != Misconfigured && ClassOf(l.answer) != Refused)) {
			a.violate("I11", "row %d is put back uncharged after: %v", h.row.Seq, l.answer)
		}
		return
	}
	if !refused || (ClassOf(l.answer) != Retryable && ClassOf(l.answer) != Refused) || errors.Is(l.answer, ErrUnsent) {
		a.violate("I11", "row %d is charged after: %v", h.row.Seq, l.answer)
	}
	if a.charge(l); h.charges >= a.w.plan.attempts(h.row) {
		a.violate("I7", "row %d is to be tried again after %d failed attempts", h.row.Seq, h.charges)
	}
}

func (a *audit) holdDead(l *lease, x Dead) {
	h := l.row
	h.deaths++
	if x.Attempted {
		a.charge(l)
	}
	right := false
	switch x.Reason {
	case outbox.ReasonMaxAttempts:
		right = h.charges >= a.w.plan.attempts(h.row) &&
			!errors.Is(l.answer, ErrUnsent) && (!l.offered || (l.heard && l.answer != nil && ClassOf(l.answer) == Retryable))
	case outbox.ReasonRejectedByBroker:
		// A good row dies of it when its topic refused it, then accepted others and
		// refused it again, or when it was alone and has used up its attempts.
		class := ClassOf(l.answer)
		right = l.heard && l.answer != nil && (class == Rejected || class == Refused) &&
			(h.kind == kindRejected || len(h.refusals) > 1 || h.charges >= a.w.plan.attempts(h.row))
	case outbox.ReasonExpired:
		right = !l.offered && a.w.plan.tooLate(h.row, a.w.table.now())
	default:
		right = h.kind == rowKind(x.Reason) && !l.offered
	}
	if !right {
		a.violate("I7", "row %d, %s, dies of %s after %d failed attempts, the last: %v", h.row.Seq, h.kind, x.Reason, h.charges, l.answer)
	}
}

// charge counts a failed attempt. An outage may cost a row one.
func (a *audit) charge(l *lease) {
	h := l.row
	h.charges++
	if l.outage == 0 {
		return
	}
	if h.outages[l.outage]++; h.outages[l.outage] > 1 {
		a.violate("I7", "row %d has lost %d attempts to one outage", h.row.Seq, h.outages[l.outage])
	}
}

// exited is a publisher that has ended by itself.
func (a *audit) exited(p *process) {
	took := time.Since(p.stopped)
	a.w.say("%s has ended", p.name)
	if !p.stopped.IsZero() && !p.stood {
		if most := a.w.plan.cfg.ShutdownTimeout + 10*time.Millisecond; took > most {
			a.violate("shutdown", "%s took %v to stop, %v are allowed", p.name, took, most)
		}
	}
	if rows, bytes := p.d.InFlight(); rows != 0 || bytes != 0 {
		a.violate("I14", "%s has ended with %d rows and %d bytes in flight", p.name, rows, bytes)
	}
	for _, h := range a.order {
		for _, l := range h.leases {
			if l.proc == p && !l.over && l.excuse == "" {
				a.violate("shutdown", "%s has ended and left row %d leased", p.name, h.row.Seq)
			}
		}
	}
}

// final holds the end against the invariants: the faults are over for longer
// than a lease.
func (a *audit) final() {
	open, all := map[string]int{}, map[string]int{}
	for _, l := range a.w.table.letters {
		all[l.eventID]++
		if !l.replayed {
			open[l.eventID]++
		}
	}
	rows := 0
	for _, h := range a.order {
		r := h.row
		if !h.committed {
			continue
		}
		rows++
		published, dead := !r.published.IsZero(), r.dead != ""
		switch {
		case h.kind == kindRejected && !published && !dead:
			// See decide.
		case a.w.table.holder(r) != "":
			a.violate("I9", "row %d is still leased to %s", r.Seq, a.w.table.holder(r))
		case !published && !dead:
			a.violate("I9", "row %d is still pending, after %d attempts: %s", r.Seq, r.AttemptCount, r.lastError)
		case published && h.copies == 0:
			a.violate("I1", "row %d is marked published and the broker never stored it", r.Seq)
		case published && h.kind != kindGood && h.kind != kindStubborn:
			a.violate("I7", "row %d, %s, is published", r.Seq, h.kind)
		}
		if r.AttemptCount != h.charges {
			a.violate("I11", "row %d counts %d attempts, %d failed", r.Seq, r.AttemptCount, h.charges)
		}
		if want := map[bool]int{true: 1}[dead]; open[r.ID] != want || all[r.ID] != h.deaths {
			a.violate("I7", "row %d died %d times, is dead: %v, and has %d dead letters, %d of them open", r.Seq, h.deaths, dead, all[r.ID], open[r.ID])
		}
	}
	for _, p := range a.w.procs {
		if still := time.Since(p.d.LastPulse()); p.running() && still > 2*time.Second {
			a.violate("liveness", "the loop of %s has not moved for %v", p.name, still)
		}
	}
	inTable := 0
	for _, r := range a.w.table.rows {
		if r != nil && !r.pending {
			inTable++
		}
	}
	if inTable != rows {
		a.violate("I4", "%d rows for %d committed events", inTable, rows)
	}
}
