package dispatch

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// memRow is a row of memTable.
type memRow struct {
	Claimed
	next      time.Time
	published time.Time
	messageID string
	dead      outbox.DeadReason
	// passed: it was discarded, and holds back nothing of its key any more.
	passed    bool
	lastError string
	// pending is a row whose transaction has neither committed nor rolled back.
	pending bool
	// tx is the open transaction that has locked the row.
	tx *memTx
	// leasedTo is whose lease names the row, in copies of it.
	leasedTo string
}

// leased reports whether a lease names the row, which is a copy.
func (r memRow) leased() bool { return r.leasedTo != "" }

// memLetter is a row of outbox_dlq.
type memLetter struct {
	eventID  string
	reason   outbox.DeadReason
	replayed bool
}

// memTable is the outbox in memory, with the semantics of the SQL one under
// READ COMMITTED: a statement sees what is committed, a claim skips locked
// rows and looks for leases behind that, a settle waits for locks, leases end by the
// table's own clock, and every settle is fenced. Tests talk to it through memStore, the simulation through
// the transactions below, between whose begin and commit others get their turn.
type memTable struct {
	mu      sync.Mutex
	rows    []*memRow
	byID    map[string]*memRow
	letters []*memLetter
	// leases are those that are committed; leaseIDs counts all.
	leases   []*memLease
	leaseIDs int64
	// skew is how far the table's clock is from its users'.
	skew time.Duration
	// bug is a mistake the table makes on purpose.
	bug memBug
}

// memBug is a mistake in the SQL that the simulation must notice.
type memBug string

const (
	bugNoFence       memBug = "a settle is not fenced"
	bugNoReclaim     memBug = "an expired lease is never reclaimed"
	bugClientClock   memBug = "leases go by the publisher's clock"
	bugTwoStatements memBug = "the dead letter and the mark are two transactions"
	bugDirtyRead     memBug = "a claim sees uncommitted rows"
	bugTakesLocked   memBug = "a claim takes rows another claim has locked"
	bugNoLook        memBug = "a claim does not look for leases behind its locks"
	bugChargesAll    memBug = "the end of a lease charges all rows of a key"
	bugShrinksFirst  memBug = "a lease is shrunk in another transaction than its verdicts"
)

func (s *memTable) now() time.Time { return time.Now().Add(s.skew) }

// insert adds a row, invisible until it is committed when pending. A second row
// of the same id is refused, as the primary key does.
func (s *memTable) insert(id, eventType string, pending bool) (*memRow, bool) {
	seq := int64(len(s.rows) + 1)
	if id == "" {
		id = fmt.Sprintf("00000000-0000-7000-8000-%012d", seq)
	}
	if s.byID[id] != nil {
		return s.byID[id], false
	}
	row := &memRow{Claimed: Claimed{
		Key: Key{ID: id, Seq: seq}, EventType: eventType, AggregateType: "thing",
		AggregateID: "00000000-0000-4000-8000-000000000001",
		Payload:     fmt.Appendf(nil, `{"version":1,"eventId":%q,"occurredAt":"2026-01-01T00:00:00Z","data":{}}`, id),
		CreatedAt:   s.now(), Since: s.now(),
	}, next: s.now(), pending: pending}
	if s.byID == nil {
		s.byID = map[string]*memRow{}
	}
	s.rows, s.byID[id] = append(s.rows, row), row
	return row, true
}

// rollBack removes a row that was never committed. Its seq stays used.
func (s *memTable) rollBack(row *memRow) {
	delete(s.byID, row.ID)
	s.rows[row.Seq-1] = nil
}

func (s *memTable) claimable(r *memRow, p ClaimParams, now time.Time) bool {
	return r != nil && r.OrderingKey == "" && inRange(r, p) && s.dueNow(r, p, now)
}

// dueNow is the predicate of the same name.
func (s *memTable) dueNow(r *memRow, p ClaimParams, now time.Time) bool {
	return (!r.pending || s.bug == bugDirtyRead) &&
		r.published.IsZero() && r.dead == "" && !r.next.After(now) &&
		(len(p.Only) == 0 || p.Only.Has(r.Namespace, r.EventType)) && !p.Except.Has(r.Namespace, r.EventType)
}

// behind is the rows after a seq.
func (s *memTable) behind(seq int64) []*memRow { return s.rows[min(int(seq), len(s.rows)):] }

func inRange(r *memRow, p ClaimParams) bool {
	return r.Seq > p.AfterSeq && (p.ThroughSeq == 0 || r.Seq <= p.ThroughSeq)
}

// onTheWay reports whether a claim walks over the row.
func onTheWay(r *memRow, p ClaimParams) bool {
	return r != nil && inRange(r, p) && r.published.IsZero() && r.dead == ""
}

// due reports whether a claim would find a row, without locking any, and how many
// rows it walked over.
func (s *memTable) due(p ClaimParams) (due bool, walked int) {
	now := s.now()
	taken := s.takenFor(p, now)
	for _, r := range s.behind(p.AfterSeq) {
		if onTheWay(r, p) {
			walked++
		}
		if s.claimable(r, p, now) && !taken[r] {
			return true, walked
		}
	}
	return false, walked
}

// lastSeq is the seq of the last row that is neither published nor dead.
func (s *memTable) lastSeq() (last int64) {
	for _, r := range s.rows {
		if onTheWay(r, ClaimParams{}) && !r.pending {
			last = max(last, r.Seq)
		}
	}
	return last
}

// memTx is an open transaction: it has locked rows and leases, and changes them when
// it commits. steps are its statements behind the first; what is left of them runs
// before the commit.
type memTx struct {
	locked []*memRow
	leases []*memLease
	steps  []func()
	commit func()
}

func (tx *memTx) lock(r *memRow) {
	r.tx = tx
	tx.locked = append(tx.locked, r)
}

// step runs the next statement, and reports whether there was one.
func (tx *memTx) step() bool {
	if len(tx.steps) == 0 {
		return false
	}
	next := tx.steps[0]
	tx.steps = tx.steps[1:]
	next()
	return true
}

// end commits or rolls back, and unlocks.
func (tx *memTx) end(commit bool) {
	for commit && tx.step() {
	}
	if commit && tx.commit != nil {
		tx.commit()
	}
	for _, r := range tx.locked {
		if r.tx == tx {
			r.tx = nil
		}
	}
	for _, l := range tx.leases {
		if l.tx == tx {
			l.tx = nil
		}
	}
}

// beginClaim begins to lease the oldest due rows to owner: what expired is charged, then
// rows are locked, then those are leased that no lease names. got is complete after
// the commit.
func (s *memTable) beginClaim(owner string, p ClaimParams) (tx *memTx, got *leased) {
	tx, got = &memTx{}, &leased{}
	now := s.claimClock()
	s.expire(tx, got, p, now)
	taken := s.takenBut(tx)
	var locked []*memRow
	var bytes int64
	lock := func() {
		for _, r := range s.behind(p.AfterSeq) {
			if len(locked) >= p.Limit || (len(locked) > 0 && bytes >= p.MaxBytes) {
				break
			}
			if onTheWay(r, p) {
				got.walked++
			}
			if !s.claimable(r, p, now) || taken[r] || (r.tx != nil && r.tx != tx && s.bug != bugTakesLocked) {
				continue
			}
			bytes += r.held()
			tx.lock(r)
			locked = append(locked, r)
		}
	}
	look := func() {
		if s.bug == bugNoLook {
			return
		}
		taken := s.takenBut(tx)
		locked = slices.DeleteFunc(locked, func(r *memRow) bool { return taken[r] })
	}
	tx.steps = []func(){lock, look}
	tx.commit = func() {
		s.commitExpired(got)
		s.lease(locked, owner, now.Add(p.Lease), got)
	}
	return tx, got
}

// replay puts a dead row back, as an operator does, and reports whether it was
// dead.
func (s *memTable) replay(id string) bool {
	r := s.byID[id]
	if r == nil || r.dead == "" || r.tx != nil {
		return false
	}
	r.dead, r.passed, r.AttemptCount, r.next, r.Since, r.lastError = "", false, 0, s.now(), s.now(), ""
	s.forget(r)
	for _, l := range s.letters {
		if l.eventID == id {
			l.replayed = true
		}
	}
	return true
}
