package dispatch

import "sync"

// orderedRequests is how many keys of one topic are sent at the same time. A key
// has one request under way at most, so it takes many keys to keep a broker busy;
// and a topic that does not answer leaves the others their own.
const orderedRequests = 64

// sendQueue are the goroutines that send the keys of a topic, one group after the
// other each. A goroutine for every group would have to grow its stack every time.
type sendQueue struct {
	mu     sync.Mutex
	queue  []func()
	active int
}

// send lets f be called as soon as fewer than orderedRequests are.
func (q *sendQueue) send(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, f)
	if q.active < orderedRequests {
		q.active++
		go q.work()
	}
}

// work ends when nothing is queued, so that nothing is left at the end of Run.
func (q *sendQueue) work() {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.active--
			q.mu.Unlock()
			return
		}
		f := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		f()
	}
}
