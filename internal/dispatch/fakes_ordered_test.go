package dispatch

import (
	"cmp"
	"slices"
	"time"
)

// Mistakes in the claim of keys that the simulation must notice.
const (
	bugNoPlace     memBug = "a run goes on behind a row that could not be locked"
	bugDeadPasses  memBug = "a dead row does not hold back its key"
	bugFilterProbe memBug = "the filters narrow the look at a key"
	bugHintProbe   memBug = "the hint narrows the look at a key"
)

// orderedLeased is what a claim of keys did.
type orderedLeased struct {
	leased
	seen   int
	seenTo int64
	locked int
}

func (l *orderedLeased) claim(p ClaimParams) Claim {
	rows := slices.Clone(l.rows)
	slices.SortFunc(rows, func(a, b Claimed) int { return cmp.Compare(a.Seq, b.Seq) })
	return Claim{Rows: rows, SeenTo: l.seenTo, Seen: l.seen, Full: l.locked >= p.Limit || p.cutShort(rows)}
}

func (s *memTable) dueOrdered(p ClaimParams) bool {
	now := s.now()
	taken := s.takenFor(p, now)
	return slices.ContainsFunc(s.behind(p.AfterSeq), func(r *memRow) bool {
		return r != nil && r.OrderingKey != "" && inRange(r, p) && s.dueNow(r, p, now) && !taken[r]
	})
}

// keyed reports whether a row with a key waits behind after.
func (s *memTable) keyed(after int64) bool {
	return slices.ContainsFunc(s.behind(after), func(r *memRow) bool {
		return r != nil && r.OrderingKey != "" && !r.pending && r.Seq > after && r.published.IsZero() && r.dead == ""
	})
}

// open lists the committed rows of a key that are neither published nor passed.
func (s *memTable) open(key string) (rows []*memRow) {
	for _, r := range s.rows {
		if r != nil && r.OrderingKey == key && (!r.pending || s.bug == bugDirtyRead) && r.published.IsZero() && !r.passed && (r.dead == "" || s.bug != bugDeadPasses) {
			rows = append(rows, r)
		}
	}
	return rows
}

// keysSeen lists the keys that a claim looks at, and counts their rows.
func (s *memTable) keysSeen(
	p ClaimParams, now time.Time, taken map[*memRow]bool, got *orderedLeased,
) (keys []string, rows map[string]int) {
	rows = map[string]int{}
	want := func(key string, n int) {
		if rows[key] == 0 {
			keys = append(keys, key)
		}
		rows[key] += n
	}
	for _, key := range p.Look {
		want(key, p.most())
	}
	still := map[string]bool{}
	for _, r := range s.behind(p.AfterSeq) {
		if got.seen == p.Window {
			break
		}
		if r == nil || r.OrderingKey == "" || !inRange(r, p) {
			continue
		}
		got.walked++
		if !s.dueNow(r, p, now) || taken[r] || slices.Contains(p.Busy, r.OrderingKey) {
			continue
		}
		if _, known := still[r.OrderingKey]; !known {
			still[r.OrderingKey] = p.Sweep && s.open(r.OrderingKey)[0].dead != ""
		}
		if still[r.OrderingKey] {
			continue
		}
		got.seen, got.seenTo = got.seen+1, r.Seq
		want(r.OrderingKey, 1)
	}
	return keys, rows
}

// beginOrdered begins to lease the runs whose turn it is.
func (s *memTable) beginOrdered(owner string, p ClaimParams) (tx *memTx, got *orderedLeased) {
	tx, got = &memTx{}, &orderedLeased{}
	now := s.claimClock()
	s.expire(tx, &got.leased, p, now)
	taken := s.takenBut(tx)
	var runs []*memRow
	lock := func() {
		var bytes int64
		keys, rows := s.keysSeen(p, now, taken, got)
		for _, key := range keys {
			open := s.open(key)
			if s.bug == bugFilterProbe {
				open = slices.DeleteFunc(open, func(r *memRow) bool { return !s.dueNow(r, p, now) })
			}
			if s.bug == bugHintProbe {
				open = slices.DeleteFunc(open, func(r *memRow) bool { return r.Seq <= p.AfterSeq })
			}
			gap := false
			for _, r := range open[:min(len(open), max(rows[key], 16), p.most())] {
				if !s.dueNow(r, p, now) || taken[r] || got.locked == p.Limit {
					break
				}
				if r.tx != nil && r.tx != tx {
					gap = s.bug != bugNoPlace
					continue
				}
				tx.lock(r)
				got.locked++
				if gap || (len(runs) > 0 && bytes >= p.MaxBytes) {
					continue
				}
				bytes += r.held()
				runs = append(runs, r)
			}
		}
	}
	look := func() {
		if s.bug == bugNoLook {
			return
		}
		taken := s.takenBut(tx)
		ended := map[string]bool{}
		runs = slices.DeleteFunc(runs, func(r *memRow) bool {
			ended[r.OrderingKey] = ended[r.OrderingKey] || taken[r]
			return ended[r.OrderingKey]
		})
	}
	tx.steps = []func(){lock, look}
	tx.commit = func() {
		s.commitExpired(&got.leased)
		s.lease(runs, owner, now.Add(p.Lease), &got.leased)
	}
	return tx, got
}

// discard lets what follows a dead row pass, and reports whether it was dead.
func (s *memTable) discard(id string) bool {
	r := s.byID[id]
	if r == nil || r.dead == "" || r.passed || r.tx != nil {
		return false
	}
	r.passed = r.OrderingKey != ""
	return true
}
