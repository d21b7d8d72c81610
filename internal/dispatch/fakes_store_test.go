package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// memStore is a memTable whose transactions take no time, for tests of one
// behaviour. All its users count as one publisher.
type memStore struct {
	memTable
	lost   int
	claims int
	looks  int
	// ends counts the claims that looked for leases whose time is over.
	ends int
	// keyLooks counts what was asked for keys alone.
	keyLooks int
	// fail, when set, is asked before every call.
	fail func(call string) error
	// walkCost makes a walk over n pending rows take time.
	walkCost func(walked int) time.Duration
}

// walk takes the time that a walk over n rows takes, or returns why it ended
// earlier. The store is unlocked meanwhile.
func (s *memStore) walk(ctx context.Context, n int) error {
	if s.walkCost == nil {
		return ctx.Err()
	}
	cost := s.walkCost(n)
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(cost):
		return nil
	}
}

func (s *memStore) add(n int, eventType string) (added []*memRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		row, _ := s.insert("", eventType, false)
		added = append(added, row)
	}
	return added
}

func (s *memStore) failure(call string) error {
	if s.fail == nil {
		return nil
	}
	return s.fail(call)
}

func (s *memStore) Claim(ctx context.Context, p ClaimParams) (Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.endsLeases() {
		s.ends++
	}
	if p.Ordered {
		return s.claimOrdered(ctx, p)
	}
	s.claims++
	if err := s.failure("claim"); err != nil {
		return Claim{}, err
	}
	tx, got := s.beginClaim("", p)
	tx.step() // it is locked what is locked before the walk takes its time
	keyed := s.keyed(p.KeyedAfter)
	err := s.walk(ctx, got.walked)
	tx.end(err == nil)
	return Claim{Rows: got.rows, Keyed: keyed, Full: p.cutShort(got.rows)}, err
}

func (s *memStore) Due(ctx context.Context, p ClaimParams) (due, keyed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Ordered {
		s.keyLooks++
		return s.dueOrdered(p), false, cmp.Or(s.failure("due ordered"), ctx.Err())
	}
	s.looks++
	if err := s.failure("due"); err != nil {
		return false, false, err
	}
	due, walked := s.due(p)
	return due, s.keyed(p.KeyedAfter), s.walk(ctx, walked)
}

func (s *memStore) claimOrdered(ctx context.Context, p ClaimParams) (Claim, error) {
	s.keyLooks++
	if err := s.failure("claim ordered"); err != nil {
		return Claim{}, err
	}
	tx, got := s.beginOrdered("", p)
	tx.step()
	err := s.walk(ctx, got.walked)
	tx.end(err == nil)
	return got.claim(p), err
}

// addOrdered adds n rows of one key.
func (s *memStore) addOrdered(n int, key, eventType string) []*memRow {
	added := s.add(n, eventType)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range added {
		r.OrderingKey = key
	}
	return added
}

func (s *memStore) Held(ctx context.Context) (rows int, until time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, until = s.held("")
	return rows, until, cmp.Or(s.failure("held"), ctx.Err())
}

func (s *memStore) LastSeq(ctx context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastSeq(), cmp.Or(s.failure("last"), ctx.Err())
}

func (s *memStore) Settle(ctx context.Context, v Verdicts) (Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failure("settle"); err != nil {
		return Settled{}, err
	}
	if err := ctx.Err(); err != nil {
		return Settled{}, err
	}
	tx, n, kept := s.beginSettle("", v)
	for tx == nil { // a claim has locked one of the rows
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
		tx, n, kept = s.beginSettle("", v)
	}
	tx.end(true)
	s.lost += v.Len() - len(kept)
	return *n, nil
}

func (s *memStore) calls() (claims, looks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims, s.looks
}

// all returns copies, in seq order.
func (s *memStore) all() []memRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]memRow, len(s.rows))
	for i, r := range s.rows {
		out[i] = *r
		out[i].leasedTo = s.holder(r)
	}
	slices.SortFunc(out, func(a, b memRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

func (s *memStore) count(match func(memRow) bool) (n int) {
	for _, r := range s.all() {
		if match(r) {
			n++
		}
	}
	return n
}

// leaseUntil leases rows to another publisher.
func (s *memStore) leaseUntil(until time.Time, rows ...*memRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memTable.lease(rows, "another", until, &leased{})
}

func isPublished(r memRow) bool { return !r.published.IsZero() }
