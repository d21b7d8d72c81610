package dispatch

import (
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// rowKind is what the broker and the catalogue will make of a row.
type rowKind string

const (
	kindGood     rowKind = "good"
	kindRejected rowKind = "rejected"
	kindStubborn rowKind = "stubborn"
	// The kinds of a row that is not offered at all are the reasons it dies for.
)

// lease is one claim of one row, and what is known of it.
type lease struct {
	row   *history
	proc  *process
	id    int64
	until time.Time
	// asked is when the publisher sent the claim.
	asked time.Time
	// offered: handed to the broker's client. answer: what the publisher heard.
	offered   bool
	heard     bool
	answer    error
	messageID string
	outage    int
	copies    int
	// excuse is a fault that may cost the row another delivery.
	excuse string
	// over: settled, or taken over after it had expired.
	over bool
}

// history is what happened to one row.
type history struct {
	row       *memRow
	kind      rowKind
	committed bool
	current   *lease
	leases    []*lease
	// charges, and outages by their id, count failed attempts since the row
	// was emitted or replayed.
	charges int
	outages map[int]int
	// refusals are the windows in which its topic refused it with all others.
	refusals map[int]bool
	copies   int
	deaths   int
	// passed: an operator has discarded it, once at least.
	passed bool
}

// audit watches from outside and holds what happens against the invariants. It
// trusts neither the dispatcher nor the table.
type audit struct {
	w          *world
	rows       map[string]*history
	order      []*history
	byPayload  map[*byte]*lease
	violations []string
	duplicates int
	stale      int
}

func newAudit(w *world) *audit {
	return &audit{w: w, rows: map[string]*history{}, byPayload: map[*byte]*lease{}}
}

func (a *audit) violate(invariant, format string, args ...any) {
	text := invariant + ": " + fmt.Sprintf(format, args...)
	a.w.say("VIOLATION %s", text)
	a.violations = append(a.violations, text)
}

func (a *audit) emitted(row *memRow, kind rowKind) *history {
	h := &history{row: row, kind: kind, outages: map[int]int{}, refusals: map[int]bool{}}
	a.rows[row.ID] = h
	a.order = append(a.order, h)
	return h
}

func (a *audit) kindOf(id string) rowKind { return a.rows[id].kind }

// claimed is a claim that has committed: leases that it has ended, and the one it got.
func (a *audit) claimed(p *process, got *leased, asked time.Time, excuse string) {
	for _, end := range got.ended {
		a.expired(end)
	}
	for i := range got.rows {
		a.granted(p, &got.rows[i], got.until, asked, excuse)
	}
}

// expired is a lease that was ended without a verdict. Of an ordering key only the first
// row was sent for certain, and is charged.
func (a *audit) expired(end endedLease) {
	if end.until.After(a.w.table.now()) {
		a.violate("I12", "lease %d of %s is ended while it runs", end.id, end.owner)
	}
	heads := map[string]*history{}
	for _, h := range a.order {
		if l := h.current; l != nil && l.id == end.id && !l.over && heads[h.row.OrderingKey] == nil {
			heads[h.row.OrderingKey] = h
		}
	}
	for _, r := range end.freed {
		h := a.rows[r.ID]
		if h.current == nil || h.current.id != end.id || h.current.over {
			a.violate("I12", "row %d is still in lease %d, which is over for it", r.Seq, end.id)
			continue
		}
		h.current.over = true
		head := r.OrderingKey == "" || heads[r.OrderingKey] == h
		if head {
			h.charges++
		}
		if end.charged[r] != head {
			a.violate("I11", "row %d: a lease that ended without a verdict was charged: %v", r.Seq, end.charged[r])
		}
	}
}

// granted is one row of a lease.
func (a *audit) granted(p *process, row *Claimed, until, asked time.Time, excuse string) {
	h := a.rows[row.ID]
	if !h.committed {
		a.violate("I2", "row %d is leased before it is committed", row.Seq)
	}
	if before := h.current; before != nil && !before.over {
		a.violate("I12", "row %d is leased to %s while the lease of %s names it", row.Seq, p.name, before.proc.name)
		before.over = true
	}
	if row.AttemptCount != h.charges {
		a.violate("I11", "row %d counts %d attempts, %d failed", row.Seq, row.AttemptCount, h.charges)
	}
	l := &lease{row: h, proc: p, id: row.Lease, until: until, asked: asked, excuse: excuse}
	if p.dead || p.frozen {
		l.excuse = "claimed by a publisher that was gone"
	}
	if p.stuck > 0 && l.excuse == "" {
		l.excuse = "claimed by a publisher whose settles do not get through"
	}
	h.current, h.leases = l, append(h.leases, l)
	a.byPayload[&row.Payload[0]] = l
}

// offered is a request to publish, as the client gets it. The bytes are those
// of one claim, so they tell which lease they were read under.
func (a *audit) offered(p *process, topic string, msgs []Message) []*lease {
	leases := make([]*lease, len(msgs))
	at := a.w.broker.window(topic)
	for i, m := range msgs {
		l := a.byPayload[&m.Data[0]]
		if l == nil {
			a.violate("I8", "row %s is offered with bytes no claim returned", m.EventID)
			l = a.rows[m.EventID].current
		}
		if late := time.Since(l.asked); late > a.w.plan.cfg.sendBy() {
			a.violate("I12", "row %d is offered %v after its claim, too late for its lease", l.row.row.Seq, late)
		}
		if at != nil && at.outage && l.asked.After(at.known[p]) && !at.known[p].IsZero() {
			a.violate("I7", "row %d is claimed and offered by %s, which knows that the broker is away", l.row.row.Seq, p.name)
		}
		if a.w.plan.tooLate(l.row.row, l.asked.Add(a.w.table.skew)) {
			a.violate("I7", "row %d is offered %v after its time", l.row.row.Seq, a.w.table.now().Sub(l.row.row.Since))
		}
		if l.offered {
			a.violate("I12", "row %d is offered twice under one lease", l.row.row.Seq)
		}
		if l.proc != p {
			a.violate("I10", "row %d is offered by %s under the lease of %s", l.row.row.Seq, p.name, l.proc.name)
		}
		l.offered = true
		leases[i] = l
	}
	return leases
}

// stored is a message the broker has stored.
func (a *audit) stored(l *lease, m Message) {
	h := l.row
	if !h.committed {
		a.violate("I2", "row %d is published before it is committed", h.row.Seq)
	}
	a.comparePayload(h.row, m)
	if h.copies == 0 && h.row.OrderingKey != "" {
		a.inTurn(h)
	}
	l.copies++
	h.copies++
	if h.copies > 1 {
		a.duplicates++
	}
	for _, other := range h.leases {
		if other != l && other.copies > 0 && other.excuse == "" && l.excuse == "" {
			a.violate("I12", "row %d is published by %s and by %s, and no fault explains it", h.row.Seq, other.proc.name, l.proc.name)
		}
	}
}

// inTurn is I5: when a row is first stored, so were all before it in its key that
// are not discarded.
func (a *audit) inTurn(h *history) {
	for _, before := range a.order {
		if before.row.OrderingKey == h.row.OrderingKey && before.row.Seq < h.row.Seq && before.committed && !before.passed && before.copies == 0 {
			a.violate("I5", "row %d of %s is stored before row %d", h.row.Seq, h.row.OrderingKey, before.row.Seq)
			return
		}
	}
}

func (a *audit) comparePayload(row *memRow, m Message) {
	if string(m.Data) != string(row.Payload) {
		a.violate("I8", "row %d is published as %s", row.Seq, m.Data)
	}
	if m.OrderingKey != row.OrderingKey {
		a.violate("I5", "row %d of key %q is published with key %q", row.Seq, row.OrderingKey, m.OrderingKey)
	}
	from := wire.Row{ID: row.ID, EventType: row.EventType, AggregateType: row.AggregateType, AggregateID: row.AggregateID, CreatedAt: row.CreatedAt}
	if row.OrderingKey != "" {
		from.Seq = row.Seq
	}
	want := wire.Attributes(from)
	for name, value := range want {
		if m.Attributes[name] != value {
			a.violate("I8", "row %d is published with %s = %q, not %q", row.Seq, name, m.Attributes[name], value)
		}
	}
	if len(m.Attributes) != len(want) {
		a.violate("I8", "row %d is published with %d attributes", row.Seq, len(m.Attributes))
	}
}

// answered is a reply to publish, as the publisher hears it.
func (a *audit) answered(c *publishCall) {
	if c.abandoned {
		return // it did not wait for the answer
	}
	// What was sent before the outage may have been overtaken by a success: its
	// answer then says nothing about now.
	if at := a.w.broker.windowByID(c.outage); at != nil && c.sent.After(at.from) && at.known[c.proc].IsZero() && at.topic == c.topic {
		at.known[c.proc] = time.Now()
	}
	for i, l := range c.leases {
		l.heard, l.answer, l.messageID, l.outage = true, c.results[i].Err, c.results[i].MessageID, c.outage
	}
}

// refused is a request to a topic that refuses everything.
func (a *audit) refused(leases []*lease, at *window) {
	for _, l := range leases {
		l.row.refusals[at.id] = true
	}
}

// undecided counts the rows that the broker refuses and that have not died yet.
func (a *audit) undecided() (n int) {
	for _, h := range a.order {
		if h.kind == kindRejected && h.committed && h.row.dead == "" {
			n++
		}
	}
	return n
}

// replayed is an operator's doing.
func (a *audit) replayed(id string) {
	h := a.rows[id]
	h.charges, h.outages = 0, map[int]int{}
}

// excuse notes, for every open lease of a publisher, a fault that may cost its
// row another delivery.
func (a *audit) excuse(p *process, why string) {
	for _, h := range a.order {
		for _, l := range h.leases {
			if (p == nil || l.proc == p) && !l.over && l.excuse == "" {
				l.excuse = why
			}
		}
	}
}

func (a *audit) excuseAll(why string) { a.excuse(nil, why) }

func (a *audit) excuseLeases(leases []*lease, why string) {
	for _, l := range leases {
		if l.excuse == "" {
			l.excuse = why
		}
	}
}

func (a *audit) excuseLease(k Key, p *process, why string) {
	if l := a.find(k, p); l != nil {
		a.excuseLeases([]*lease{l}, why)
	}
}

func (a *audit) find(k Key, p *process) *lease {
	for _, l := range a.rows[k.ID].leases {
		if l.proc == p && l.id == k.Lease {
			return l
		}
	}
	return nil
}
