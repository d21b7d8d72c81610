package dispatch

import (
	"cmp"
	"slices"
	"time"
)

// memExpired is the error of a row whose lease ended without a verdict.
const memExpired = "lease expired"

// memLease is a row of outbox_leases.
type memLease struct {
	id    int64
	owner string
	until time.Time
	rows  map[*memRow]bool
	// tx is the open transaction that has locked the lease.
	tx *memTx
}

// leased is what a committed claim did.
type leased struct {
	rows   []Claimed
	until  time.Time
	ended  []endedLease
	walked int
}

// endedLease is a lease that a claim has ended, the rows that it no longer names, and
// those of them that were charged.
type endedLease struct {
	*memLease
	freed   []*memRow
	charged map[*memRow]bool
}

// claimClock is the clock that a claim reads.
func (s *memTable) claimClock() time.Time {
	if s.bug == bugClientClock {
		return time.Now()
	}
	return s.now()
}

// taken are the rows that a lease names which ends after a moment.
func (s *memTable) taken(after time.Time) map[*memRow]bool {
	taken := map[*memRow]bool{}
	for _, l := range s.leases {
		for r := range l.rows {
			if l.until.After(after) {
				taken[r] = true
			}
		}
	}
	return taken
}

// takenFor are the rows that a claim finds leased, without having looked for leases to end.
func (s *memTable) takenFor(p ClaimParams, now time.Time) map[*memRow]bool {
	if p.endsLeases() {
		return s.taken(now)
	}
	return s.taken(time.Time{})
}

// takenBut are the rows that a lease names, ended or not, but for those that tx takes
// out of it.
func (s *memTable) takenBut(tx *memTx) map[*memRow]bool {
	taken := map[*memRow]bool{}
	for _, l := range s.leases {
		for r := range l.rows {
			if l.tx != tx || r.tx != tx {
				taken[r] = true
			}
		}
	}
	return taken
}

// expire locks leases that have ended, and their rows, where the claim ends leases. Whatever another transaction has
// locked stays as it is.
func (s *memTable) expire(tx *memTx, got *leased, p ClaimParams, now time.Time) {
	if !p.endsLeases() {
		return
	}
	for _, l := range s.leases {
		if l.until.After(now) || l.tx != nil || s.bug == bugNoReclaim {
			continue
		}
		l.tx = tx
		tx.leases = append(tx.leases, l)
		end := endedLease{memLease: l, charged: map[*memRow]bool{}}
		rows := make([]*memRow, 0, len(l.rows))
		for r := range l.rows {
			rows = append(rows, r)
		}
		slices.SortFunc(rows, func(a, b *memRow) int { return cmp.Compare(a.Seq, b.Seq) })
		started := map[string]bool{}
		for _, r := range rows {
			head := r.OrderingKey == "" || !started[r.OrderingKey] || s.bug == bugChargesAll
			started[r.OrderingKey] = true
			if r.tx != nil {
				continue
			}
			tx.lock(r)
			end.freed = append(end.freed, r)
			end.charged[r] = head
		}
		got.ended = append(got.ended, end)
	}
}

// commitExpired charges the rows of leases that have ended, and takes them out.
func (s *memTable) commitExpired(got *leased) {
	for _, end := range got.ended {
		for _, r := range end.freed {
			delete(end.rows, r)
			if end.charged[r] {
				r.AttemptCount++
				r.lastError = memExpired
			}
		}
	}
	s.dropEmpty()
}

func (s *memTable) dropEmpty() {
	s.leases = slices.DeleteFunc(s.leases, func(l *memLease) bool { return len(l.rows) == 0 })
}

// lease gives rows to owner.
func (s *memTable) lease(rows []*memRow, owner string, until time.Time, got *leased) *memLease {
	s.leaseIDs++
	l := &memLease{id: s.leaseIDs, owner: owner, until: until, rows: map[*memRow]bool{}}
	for _, r := range rows {
		l.rows[r] = true
		row := r.Claimed
		row.ReadAt = s.now()
		row.Lease, row.LastError, row.Expired, row.Printed = l.id, r.lastError, r.lastError == memExpired, r.held()
		row.Payload = slices.Clone(r.Payload)
		got.rows = append(got.rows, row)
	}
	got.until = until
	s.leases = append(s.leases, l)
	s.dropEmpty()
	return l
}

func (s *memTable) leaseOf(id int64) *memLease {
	i := slices.IndexFunc(s.leases, func(l *memLease) bool { return l.id == id })
	if i < 0 {
		return nil
	}
	return s.leases[i]
}

// holder is whose lease names a row, or "".
func (s *memTable) holder(r *memRow) string {
	for _, l := range s.leases {
		if l.rows[r] {
			return cmp.Or(l.owner, "the only publisher")
		}
	}
	return ""
}

// forget takes a row out of leases.
func (s *memTable) forget(r *memRow) {
	for _, l := range s.leases {
		delete(l.rows, r)
	}
	s.dropEmpty()
}

// held counts the rows that are leased to owner.
func (s *memTable) held(owner string) (rows int, until time.Time) {
	for _, l := range s.leases {
		if l.owner == owner && l.until.After(s.now()) {
			rows += len(l.rows)
			if l.until.After(until) {
				until = l.until
			}
		}
	}
	return rows, until
}
