package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// process is one life of a publisher. It is the dispatcher's Store, Publisher,
// Waker and Observer at once.
type process struct {
	w      *world
	slot   int
	name   string
	d      *Dispatcher
	cancel context.CancelFunc
	hints  chan struct{}
	armed  atomic.Bool

	// dead: killed. Its goroutines still run, but are told that all is well
	// and change nothing, so that they end.
	dead   bool
	frozen bool
	exited bool
	held   []*call
	// stuck is how many of its settles do not get through at the moment.
	stuck int
	// stopped is when it was told to stop; stood says that it stood still
	// since.
	stopped time.Time
	stood   bool
}

// boot starts a publisher in a slot.
func (w *world) boot(slot, life int) {
	if w.ending() {
		return
	}
	p := &process{w: w, slot: slot, name: fmt.Sprintf("p%d.%d", slot+1, life), hints: make(chan struct{}, 1)}
	cfg := w.plan.cfg
	random, mu := rand.New(rand.NewPCG(w.rng.Uint64(), 1)), &sync.Mutex{}
	cfg.Random = func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Float64()
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	cfg.turn = func(who string) {
		c := &call{proc: p, ctx: context.WithoutCancel(ctx), kind: "turn", detail: who}
		c.admit = func() { w.answer(c, w.between(time.Microsecond, 300*time.Microsecond)) }
		w.park(c)
	}
	// Like a publisher run by cron: ends when nothing is left, and is started again.
	cfg.Once = slot > 0 && w.chance(0.1)
	d, err := New(cfg, p, p, policyCatalogue{red: w.plan.policy}, p, p)
	if err != nil {
		panic(err)
	}
	p.d = d
	w.slots[slot], w.procs = p, append(w.procs, p)
	w.say("%s starts", p.name)
	go func() {
		err := d.Run(ctx)
		c := &call{proc: p, ctx: context.Background(), kind: "exit", detail: errText(err)}
		c.admit = func() { w.exit(c, life) }
		w.park(c)
	}()
}

// exit is a publisher that has ended by itself; it is started again.
func (w *world) exit(c *call, life int) {
	p := c.proc
	p.exited = true
	w.audit.exited(p)
	w.answer(c, 1)
	w.after(w.between(100*time.Millisecond, 2*time.Second), func() { w.boot(p.slot, life+1) })
}

// crash kills a publisher. What it has sent may still arrive.
func (w *world) crash(p *process) {
	w.say("%s crashes", p.name)
	w.audit.excuse(p, "its publisher crashed")
	p.dead = true
	p.cancel()
	p.held = nil
	for _, c := range w.open {
		if c.proc == p {
			c.held = false
			c.doomed = !c.begun && w.chance(0.5)
			w.answer(c, w.between(time.Microsecond, 50*time.Microsecond))
		}
	}
}

// freeze stops the world for a publisher, as SIGSTOP and a long page-in do.
func (w *world) freeze(p *process, d time.Duration) {
	w.say("%s stands still for %v", p.name, d)
	w.audit.excuse(p, "its publisher stood still")
	p.frozen, p.stood = true, true
	w.after(d, func() { w.thaw(p) })
}

func (w *world) thaw(p *process) {
	if !p.frozen || p.dead {
		return
	}
	w.say("%s goes on", p.name)
	p.frozen = false
	for _, c := range p.held {
		c.held = false
		w.answer(c, w.between(time.Microsecond, time.Millisecond))
	}
	p.held = nil
}

// stop is SIGTERM.
func (w *world) stop(p *process) {
	w.say("%s is told to stop", p.name)
	p.stopped, p.stood = time.Now(), p.frozen
	p.cancel()
}

func (p *process) running() bool { return p != nil && !p.dead && !p.exited }

// Arm implements Waker.
func (p *process) Arm() { p.armed.Store(true) }

// Disarm implements Waker.
func (p *process) Disarm() { p.armed.Store(false) }

// C implements Waker.
func (p *process) C() <-chan struct{} { return p.hints }

// note records what an observer was told. Goroutines that run at the same
// moment may tell it in any order.
func (p *process) note(format string, args ...any) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.notes = append(p.w.notes, p.name+" "+fmt.Sprintf(format, args...))
}

// Claimed implements Observer.
func (p *process) Claimed(ClaimReport) {}

// Published implements Observer.
func (p *process) Published(string, time.Duration, []Attempt) {}

// Settled implements Observer.
func (p *process) Settled(r SettleReport) {
	if r.Lost > 0 {
		p.note("notices %d lost leases", r.Lost)
	}
}

// TopicChanged implements Observer.
func (p *process) TopicChanged(s TopicReport) { p.note("topic %s is %s %s", s.Topic, s.State, s.Code) }

// Trouble implements Observer.
func (p *process) Trouble(doing string, err error) { p.note("trouble: %s: %v", doing, err) }

// callerRole names the loop a call comes from. The leader and its helpers make
// the same calls and go on differently.
func callerRole() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		for _, role := range []string{"lead", "help", "recoverTopic"} {
			if strings.HasSuffix(frame.Function, ")."+role) {
				return role
			}
		}
		if !more {
			return "send"
		}
	}
}
