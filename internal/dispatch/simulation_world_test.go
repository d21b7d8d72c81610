package dispatch

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// world runs publishers, producers and operators on one table and one broker,
// in a synctest bubble, with every decision drawn from a seed.
//
// The dispatchers' goroutines run as they like only between two calls to the
// store or the broker. Every call stops here. Once all goroutines stand still,
// the calls that have come are put into an order of their own, and one event
// happens at a time: a transaction begins, a message is stored, a reply is
// heard. Each has a nanosecond of its own, so one goroutine at most goes on,
// and the same seed gives the same trace.
type world struct {
	plan   simPlan
	rng    *rand.Rand
	start  time.Time
	table  *memTable
	audit  *audit
	broker *simBroker
	// slots hold the publishers that run now, procs all that ever did.
	slots  []*process
	procs  []*process
	faults map[fault]int
	// calm is set when the faults are over.
	calm      bool
	lastFault time.Time
	away      bool // the database
	// slowHead is when the walk from the head takes no longer than usual again.
	slowHead time.Time
	// keyLocks are the keys that a producer emits for.
	keyLocks map[string]bool
	open     []*call
	txs      []*openTx

	events eventHeap
	serial int
	trace  []string

	poke chan struct{}
	// mu guards what the dispatchers' goroutines write.
	mu      sync.Mutex
	arrived []*call
	notes   []string
}

// call is a dispatcher's call, from its arrival to its reply.
type call struct {
	n    int
	proc *process
	ctx  context.Context
	kind string
	// detail tells calls of one kind apart that arrive at the same moment.
	detail string
	admit  func()
	reply  chan struct{}

	// gone: the caller's context has ended. doomed: the server never gets to
	// see the call. survives: it does, although the caller is gone.
	gone, doomed, survives bool
	begun, replied, held   bool
	// fail turns what the caller hears into an error.
	fail func(err error)
	// heard is told when the reply is delivered.
	heard func()
}

type event struct {
	at time.Time
	n  int
	do func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || (h[i].at.Equal(h[j].at) && h[i].n < h[j].n)
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newWorld(seed uint64, bug memBug) *world {
	rng := rand.New(rand.NewPCG(seed, 0x6f7574626f78))
	w := &world{
		plan: planFor(rng), rng: rng, start: time.Now(), faults: map[fault]int{}, keyLocks: map[string]bool{},
		poke: make(chan struct{}, 1),
	}
	w.plan.policy = policyFor(seed)
	w.table = &memTable{skew: w.plan.skew, bug: bug}
	w.audit = newAudit(w)
	w.broker = &simBroker{w: w}
	return w
}

// serialNumber is unique, and the same in every run of the seed.
func (w *world) serialNumber() int {
	w.serial++
	return w.serial
}

func (w *world) after(d time.Duration, do func()) {
	heap.Push(&w.events, event{time.Now().Add(d), w.serialNumber(), do})
}

func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// suffers draws whether a fault happens now.
func (w *world) suffers(f fault) bool {
	if !w.chance(w.plan.rate[f]) || w.calm {
		return false
	}
	w.count(f)
	return true
}

func (w *world) count(f fault) {
	w.faults[f]++
	w.lastFault = time.Now()
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%14d ", time.Since(w.start))+fmt.Sprintf(format, args...))
}

// run lets events happen until done says so.
func (w *world) run(done func() bool) {
	for {
		synctest.Wait()
		w.takeIn()
		switch {
		case len(w.events) > 0 && !w.events[0].at.After(time.Now()):
			heap.Pop(&w.events).(event).do()
		case done():
			return
		default:
			w.sleep()
		}
	}
}

// sleep ends at the next event, or when a dispatcher calls.
func (w *world) sleep() {
	wait := time.Hour
	if len(w.events) > 0 {
		wait = time.Until(w.events[0].at)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.poke:
	}
}

// takeIn orders and admits what has come since the last event.
func (w *world) takeIn() {
	w.mu.Lock()
	arrived, notes := w.arrived, w.notes
	w.arrived, w.notes = nil, nil
	w.mu.Unlock()

	slices.Sort(notes)
	for _, note := range notes {
		w.say("%s", note)
	}
	slices.SortStableFunc(arrived, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.proc.name, b.proc.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.detail, b.detail))
	})
	for _, c := range arrived {
		c.n = w.serialNumber()
		w.open = append(w.open, c)
		if !c.proc.dead {
			w.say("%s calls %s #%d %s", c.proc.name, c.kind, c.n, c.detail)
			c.admit()
			continue
		}
		c.proc.exited = c.proc.exited || c.kind == "exit"
		w.answer(c, w.between(time.Microsecond, 50*time.Microsecond))
	}
	for _, c := range slices.Clone(w.open) {
		if !c.gone && c.ctx.Err() != nil {
			w.hangUp(c)
		}
	}
}

// park stops a dispatcher's goroutine until the world lets it go on.
func (w *world) park(c *call) {
	c.reply = make(chan struct{})
	w.mu.Lock()
	w.arrived = append(w.arrived, c)
	w.mu.Unlock()
	w.wake()
	select {
	case <-c.reply:
	case <-c.ctx.Done():
		w.wake()
		<-c.reply
	}
}

func (w *world) wake() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// hangUp is a caller whose context has ended: it hears that, soon, and what
// the server makes of the call is another matter.
func (w *world) hangUp(c *call) {
	c.gone = true
	c.doomed = !c.begun && !c.survives
	if c.proc.dead {
		return // is being answered
	}
	w.after(w.between(time.Microsecond, 100*time.Microsecond), func() {
		if !c.replied {
			c.fail(c.ctx.Err())
			w.letGo(c, c.ctx.Err())
		}
	})
}

// answer delivers the reply after a while.
func (w *world) answer(c *call, d time.Duration) {
	w.after(d, func() { w.letGo(c, nil) })
}

// letGo delivers a reply now, unless the process stands still.
func (w *world) letGo(c *call, err error) {
	switch {
	case c.replied || c.held:
		return
	case c.proc.frozen && !c.proc.dead:
		c.held = true
		c.proc.held = append(c.proc.held, c)
		return
	}
	c.replied = true
	w.open = slices.DeleteFunc(w.open, func(o *call) bool { return o == c })
	if !c.proc.dead {
		if c.heard != nil {
			c.heard()
		}
		w.say("%s hears #%d %s", c.proc.name, c.n, errText(err))
	}
	close(c.reply)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
