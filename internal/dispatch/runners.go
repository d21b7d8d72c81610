package dispatch

import "sync"

// orderedRequests is how many runs of one topic are sent at the same time. A key
// has one request under way at most, so it takes many keys to keep a broker busy;
// and a topic that does not answer leaves the others their own.
const orderedRequests = 64

// runners are the goroutines that send the runs of a topic, one run after the
// other each. A goroutine for every run would have to grow its stack every time.
type runners struct {
	mu     sync.Mutex
	queue  []func()
	active int
}

// send lets run be called as soon as fewer than orderedRequests are.
func (r *runners) send(run func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, run)
	if r.active < orderedRequests {
		r.active++
		go r.work()
	}
}

// work ends when nothing is queued, so that nothing is left at the end of Run.
func (r *runners) work() {
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.active--
			r.mu.Unlock()
			return
		}
		run := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		run()
	}
}
