package dispatch

import "sync"

// waitGroup counts work in progress. Unlike a sync.WaitGroup it may be waited for
// while new work begins: a leader that waits for the outbox to become quiet does
// not know what its helpers are about to claim.
type waitGroup struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n returns to zero; nil before the first
}

// add counts work that begins, or, with -1, that ends.
func (t *waitGroup) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		t.zero = make(chan struct{})
	}
	if t.n += n; t.n == 0 {
		close(t.zero)
	}
}

// wait returns once nothing is in progress, if only for a moment.
func (t *waitGroup) wait() {
	t.mu.Lock()
	zero, busy := t.zero, t.n > 0
	t.mu.Unlock()
	if busy {
		<-zero
	}
}

func (t *waitGroup) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n > 0
}
