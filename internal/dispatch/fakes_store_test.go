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
	// fail, when set, is asked before every call.
	fail func(call string) error
	// sweepCost makes a sweep over n pending rows take time.
	sweepCost func(walked int) time.Duration
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

func (s *memStore) Claim(_ context.Context, p ClaimParams) ([]Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
	if err := s.failure("claim"); err != nil {
		return nil, err
	}
	tx, got := s.beginClaim("", p)
	tx.end(true)
	if s.sweepCost != nil {
		cost := s.sweepCost(got.walked)
		s.mu.Unlock()
		time.Sleep(cost)
		s.mu.Lock()
	}
	return got.rows, nil
}

func (s *memStore) Due(_ context.Context, p ClaimParams) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if err := s.failure("due"); err != nil {
		return false, err
	}
	return s.due(p), nil
}

func (s *memStore) Settle(_ context.Context, v Verdicts) (Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failure("settle"); err != nil {
		return Settled{}, err
	}
	tx, n, kept := s.beginSettle("", v)
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

func isPublished(r memRow) bool { return !r.published.IsZero() }
