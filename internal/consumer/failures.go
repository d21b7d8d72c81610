package consumer

import "sync"

// maxFailures bounds how many messages failures remembers at least; twice as many at most.
const maxFailures = 10_000

// failures counts the failed deliveries of each message. Pub/Sub counts deliveries only on a subscription with a
// dead-letter policy; on any other a message would fail at the first pause, for ever.
type failures struct {
	mu            sync.Mutex
	recent, older map[string]int // guarded by mu
}

// add counts a failure of the message and returns how many there were. What failed longest ago is forgotten first.
func (f *failures) add(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := max(f.recent[id], f.older[id]) + 1
	if f.recent == nil || len(f.recent) >= maxFailures {
		f.recent, f.older = map[string]int{}, f.recent
	}
	f.recent[id] = n
	return n
}

// forget ends the count of a message that is finished.
func (f *failures) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.recent, id)
	delete(f.older, id)
}
