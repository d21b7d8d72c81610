package dispatch

import "sync"

// tally counts work under way. Unlike a sync.WaitGroup it may be waited for while
// others begin new work: a leader that waits for the outbox to become quiet does
// not know what its helpers are about to claim.
type tally struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n returns to zero; nil before the first begin
}

func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		t.zero = make(chan struct{})
	}
	t.n++
}

func (t *tally) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.n == 0 {
		close(t.zero)
	}
}

// wait returns once nothing has been under way, be it for a moment.
func (t *tally) wait() {
	t.mu.Lock()
	zero, busy := t.zero, t.n > 0
	t.mu.Unlock()
	if busy {
		<-zero
	}
}

func (t *tally) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n > 0
}
