package dispatch

import (
	"slices"
	"time"
)

// live is a seed from its start to its end.
func (w *world) live() {
	w.slots = make([]*process, w.plan.publishers)
	for slot := range w.slots {
		w.after(w.between(0, time.Second), func() { w.boot(slot, 1) })
	}
	w.produce()
	w.disturb()
	w.after(w.plan.chaos, w.heal)
	broken := func() bool { return len(w.audit.violations) > 0 }
	w.run(func() bool { return broken() || (w.calm && time.Since(w.lastFault) > w.plan.cfg.Lease+rest) })
	if !broken() {
		w.audit.final()
	}
	if !broken() {
		w.decide()
	}
	w.end(broken())
}

// decide gives the rows that the broker refuses what decides about them: other
// rows, which their topics accept. Then they must die.
func (w *world) decide() {
	limit := time.Duration(w.plan.cfg.MaxAttempts+1) * (w.plan.cfg.Backoff.Max + 2*probeMax)
	began := time.Now()
	var emit func()
	emit = func() {
		if w.ending() {
			return
		}
		for _, eventType := range []string{"red", "blue"} {
			row, _ := w.table.insert("", eventType, true)
			w.commit([]*history{w.audit.emitted(row, kindGood)})
		}
		w.after(time.Second, emit)
	}
	if w.audit.undecided() > 0 {
		emit()
	}
	w.run(func() bool {
		return w.audit.undecided() == 0 || time.Since(began) > limit || len(w.audit.violations) > 0
	})
	if n := w.audit.undecided(); n > 0 {
		w.audit.violate("I7", "%d rows that the broker refuses are still pending after %v", n, limit)
	}
}

// ending reports that nothing is started any more.
func (w *world) ending() bool { return w.slots == nil }

// end stops everything, so that no goroutine is left in the bubble.
func (w *world) end(kill bool) {
	w.slots = nil
	for _, p := range w.procs {
		switch {
		case !p.running():
		case kill:
			w.crash(p)
		case p.stopped.IsZero():
			w.stop(p)
		}
	}
	w.run(func() bool {
		return !slices.ContainsFunc(w.procs, func(p *process) bool { return !p.exited }) && len(w.open) == 0
	})
}

// disturb schedules what does not happen to a single call.
func (w *world) disturb() {
	for second := range int(w.plan.chaos / time.Second) {
		at := time.Duration(second)*time.Second + w.between(0, time.Second)
		w.after(at, w.disturbance)
	}
}

func (w *world) disturbance() {
	if w.ending() {
		return
	}
	topic := []string{"", "reds", "blues"}[w.rng.IntN(3)]
	p := w.slots[w.rng.IntN(len(w.slots))]
	long := w.between(100*time.Millisecond, 8*time.Second)
	still := w.between(w.plan.cfg.Lease/2, 2*w.plan.cfg.Lease)
	code := []string{"NotFound", "PermissionDenied", "Unauthenticated", "FailedPrecondition"}[w.rng.IntN(4)]
	if w.suffers(brokerAway) {
		w.broker.close(&window{id: w.serialNumber(), topic: topic, code: "Unavailable", outage: true, known: map[*process]time.Time{}}, long)
	}
	if w.suffers(topicForbidden) {
		w.broker.close(&window{topic: topic, code: code}, long)
	}
	if w.suffers(topicRefuses) {
		w.broker.close(&window{id: w.serialNumber(), topic: topic, code: codeRefused, refuses: true}, long)
	}
	if w.suffers(databaseAway) {
		w.databaseDown(long)
	}
	if w.suffers(storeHeadSlow) {
		w.say("the walk from the head takes too long for %v", 2*long)
		w.slowHead = time.Now().Add(2 * long)
	}
	if w.suffers(operatorPlay) {
		w.replay()
	}
	if !p.running() {
		return
	}
	switch {
	case w.suffers(processCrash):
		w.crash(p)
		w.after(w.between(50*time.Millisecond, 3*time.Second), func() { w.boot(p.slot, w.serialNumber()) })
	case w.suffers(processFreeze) && !p.frozen:
		w.freeze(p, still)
	case w.suffers(processStop) && p.stopped.IsZero():
		w.stop(p)
	}
}

// heal ends every fault. What hangs is cut off, as a network does that comes
// back.
func (w *world) heal() {
	w.say("the faults are over")
	w.calm = true
	w.databaseBack()
	w.slowHead = time.Time{}
	for len(w.broker.windows) > 0 {
		w.broker.reopen(w.broker.windows[0])
	}
	for _, p := range w.procs {
		w.thaw(p)
	}
	for _, c := range w.open {
		if c.fail == nil {
			continue
		}
		w.after(w.between(time.Millisecond, 50*time.Millisecond), func() {
			if !c.replied && !c.held && !c.proc.dead {
				c.doomed = !c.begun
				c.fail(errSimConnection)
				w.letGo(c, errSimConnection)
			}
		})
	}
	w.lastFault = time.Now()
	w.discardAll()
}
