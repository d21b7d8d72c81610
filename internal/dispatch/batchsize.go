package dispatch

import "sync"

// maxBatch is the number of rows a batch grows to by itself.
const maxBatch = 1000

// batchSize adapts the batch to the backlog: it doubles while claims come back
// full and falls back to the configured size when they do not.
type batchSize struct {
	base int

	mu  sync.Mutex
	cur int
}

func newBatchSize(base int) *batchSize { return &batchSize{base: base, cur: base} }

func (s *batchSize) limit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur
}

// done records a claim of got rows where limit were allowed.
func (s *batchSize) done(limit, got int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case got >= s.cur:
		s.cur = min(2*s.cur, max(s.base, maxBatch))
	case got < limit && got < s.cur/2:
		s.cur = s.base
	}
}

// shrink starts again from the configured size, after a failure.
func (s *batchSize) shrink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur = s.base
}
