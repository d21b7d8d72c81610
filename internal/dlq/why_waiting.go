package dlq

import (
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// waiting explains an event that is neither published nor dead.
func (f Facts) waiting(a *Answer) {
	e := f.Event
	switch {
	case e.LockedUntil != nil && e.LockedUntil.After(f.Now):
		f.leased(a)
	case f.sayPaused(a):
	case e.NextAttemptAt.After(f.Now) && e.AttemptCount > 0:
		a.State = WhyBackingOff
		a.say("%s has failed %s of %s and is tried again %s.", f.subject(), plural(e.AttemptCount, "time"), f.maximum(), f.when(e.NextAttemptAt))
		a.say("The last error was: %s.", strings.TrimRight(text(e.LastError), "."))
		a.say("Nothing need be done unless the cause persists.")
		f.sayPublishers(a)
	case e.NextAttemptAt.After(f.Now):
		a.State = WhyScheduled
		a.say("%s is not due until %s.", f.subject(), f.when(e.NextAttemptAt))
		f.sayPublishers(a)
	case e.LockedUntil != nil:
		a.State = WhyAbandoned
		a.say("%s was being published by %s, whose lease ran out %s without a verdict: it probably crashed. The next publisher takes it over; that counts as a failed attempt (%s of %s so far).",
			f.subject(), f.owner(), f.when(*e.LockedUntil), humanize.Comma(int64(e.AttemptCount)), f.maximum())
		f.sayPublishers(a)
	default:
		a.State = WhyWaiting
		a.say("%s waits for its turn and is due since %s.", f.subject(), f.when(e.NextAttemptAt))
		switch {
		case f.Ahead >= aheadBound:
			a.say("More than %s due events are before it.", humanize.Comma(aheadBound))
		case f.Ahead == 0:
			a.say("Nothing is before it.")
		default:
			a.say("%s before it.", verbCount(f.Ahead, "due event"))
		}
		f.sayReplayed(a)
		f.sayPublishers(a)
		a.do("outboxctl stats")
	}
}

func verbCount(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return humanize.Comma(n) + " " + noun + "s are"
}

func (f Facts) leased(a *Answer) {
	a.State = WhyLeased
	a.say("%s is being published right now by %s, whose lease ends %s.", f.subject(), f.owner(), f.when(*f.Event.LockedUntil))
	if f.Event.AttemptCount > 0 {
		a.say("It has failed %s before.", plural(f.Event.AttemptCount, "time"))
	}
	a.say("Should that publisher die, another takes the event over when the lease ends.")
	a.do("outboxctl why %s   # again in a moment", f.EventID)
}

// sayPaused explains a topic that is not published to.
func (f Facts) sayPaused(a *Answer) bool {
	p, t, paused := f.paused()
	if !paused {
		return false
	}
	a.State = WhyPaused
	a.say("%s waits because the topic %s is %s", f.subject(), f.Topic, t.State)
	if !t.Since.IsZero() {
		a.say("since %s", f.when(t.Since))
	}
	if t.State == "misconfigured" {
		a.say("on publisher %s (process %d): the broker refuses the topic.", p.Host, p.PID)
	} else {
		a.say("on publisher %s (process %d): the broker does not answer.", p.Host, p.PID)
	}
	if t.Error != "" {
		a.say("It says: %s.", strings.TrimRight(t.Error, "."))
	}
	a.say("The event keeps its attempts and goes out by itself when the topic works again.")
	a.do("outboxctl doctor")
	a.do("outboxctl topic ensure")
	return true
}

// sayReplayed mentions how a dead event came to wait again.
func (f Facts) sayReplayed(a *Answer) {
	if n := len(f.Deaths); n > 0 {
		a.say("It has died %s and was replayed%s.", plural(n, "time"), f.lastAct(Replay))
	} else if by := f.lastAct(Republish); by != "" {
		a.say("It was published before and sent to be published again%s.", by)
	}
}

// sayPublishers mentions that nobody publishes.
func (f Facts) sayPublishers(a *Answer) {
	if !f.PublishersKnown || f.alive() > 0 {
		return
	}
	if a.State == WhyWaiting {
		a.State = WhyNoPublisher
	}
	if len(f.Publishers) > 0 {
		a.say("No publisher is alive: the last sign was %s from %s.", f.when(f.Publishers[0].LastSeenAt), f.Publishers[0].Host)
	} else {
		a.say("No publisher is running.")
	}
	a.do("outboxctl publish")
}

func (f Facts) owner() string {
	id := text(f.Event.LockedBy)
	p := f.publisher(id)
	if p == nil {
		return "publisher " + id
	}
	return "publisher " + p.Host + " (process " + strconv.Itoa(p.PID) + ")"
}

func (f Facts) maximum() string {
	if f.Event.MaxAttempts != nil {
		return humanize.Comma(int64(*f.Event.MaxAttempts))
	}
	return humanize.Comma(int64(f.MaxAttempts))
}
