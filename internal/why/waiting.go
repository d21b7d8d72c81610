package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// waiting explains an event that is neither published nor dead.
func (f facts) waiting(r *Result) {
	e := f.Event
	switch {
	case e.LockedUntil != nil && e.LockedUntil.After(f.Now):
		f.leased(r)
	case f.sayParked(r):
	case f.sayPaused(r):
	case f.sayTopicDown(r):
	case f.sayStranded(r):
	case e.Status == outbox.StatusScheduled:
		r.State = Scheduled
		r.say("%s is scheduled: it is published %s, and not before.", f.subject(), f.when(*e.DeliverAt))
		r.do("outboxctl event retry %s --note '…'   # now instead", e.ID)
		f.sayPublishers(r)
	case e.NextAttemptAt.After(f.Now):
		r.State = BackingOff
		r.say("%s has failed %s of %s and is tried again %s.", f.subject(), words.Counted(int64(e.AttemptCount), "time"), f.maximum(), f.when(e.NextAttemptAt))
		r.say("The last error was: %s.", inWords(textOr(e.LastError, "none")))
		if !f.sayLastAttempt(r) {
			r.say("Nothing needs to be done unless the cause persists.")
		}
		r.do("outboxctl event retry %s --note '…'   # now, when the cause is gone", e.ID)
		f.sayPublishers(r)
	case e.LockedUntil != nil:
		r.State = Abandoned
		r.say("%s was being published by %s, whose lease ran out %s without a verdict: it probably crashed. The next publisher takes it over; that counts as a failed attempt (%s of %s so far).",
			f.subject(), f.owner(), f.when(*e.LockedUntil), words.Count(int64(e.AttemptCount)), f.maximum())
		f.sayLastAttempt(r)
		f.sayPublishers(r)
	default:
		r.State = Waiting
		r.say("%s waits for its turn and became due %s.", f.subject(), f.when(e.NextAttemptAt))
		if e.AttemptCount > 0 && e.LastError != nil {
			r.say("It has failed %s of %s, the last time with: %s.", words.Counted(int64(e.AttemptCount), "time"), f.maximum(), strings.TrimRight(*e.LastError, "."))
		}
		f.sayAhead(r)
		f.sayLocked(r)
		f.sayReplayed(r)
		f.sayLastAttempt(r)
		f.sayPublishers(r)
		r.do("outboxctl stats")
	}
}

// sayParked explains an event that is not the first of its ordering key, and reports whether it is one.
func (f facts) sayParked(r *Result) bool {
	if f.Head == nil {
		return false
	}
	r.State = Waiting
	ahead := words.Count(f.KeyAhead)
	if f.KeyAhead >= aheadBound {
		ahead = "more than " + words.Count(aheadBound)
	}
	r.say("%s waits its turn in the ordering key %s, %s ahead;", f.subject(), *f.Event.OrderingKey, ahead)
	switch head := f.Head; {
	case head.DeadAt != nil && f.HeadLetter != nil:
		r.State = Parked
		r.say("the first, %s, died %s (%s).", head.ID, f.when(*head.DeadAt), f.HeadLetter.Reason)
		r.say("It is published after that one is replayed or corrected, or when it is discarded.")
		r.putRight(f.HeadLetter.ID, f.HeadLetter.Reason)
		return true
	case head.DeadAt != nil:
		r.State = Parked
		r.say("the first, %s, died %s and has no dead letter.", head.ID, f.when(*head.DeadAt))
	case head.LockedUntil != nil && head.LockedUntil.After(f.Now):
		r.say("the first, %s, is being published right now.", head.ID)
	case head.Status == outbox.StatusScheduled:
		r.say("the first, %s, is scheduled for %s.", head.ID, f.when(*head.DeliverAt))
	case head.AttemptCount > 0:
		r.say("the first, %s, has failed %s and is tried again %s: %s.", head.ID, words.Counted(int64(head.AttemptCount), "time"),
			f.when(head.NextAttemptAt), inWords(textOr(head.LastError, "no error")))
	default:
		r.say("the first is %s.", head.ID)
	}
	f.sayPublishers(r)
	r.do("outboxctl why %s", f.Head.ID)
	return true
}

// sayLastAttempt foresees the death of an event that has used up its attempts: the maximum was lowered, or its
// publishers ended without a verdict. A lease that has run out is charged with the next claim.
func (f facts) sayLastAttempt(r *Result) bool {
	used := f.Event.AttemptCount
	if f.Event.LockedUntil != nil {
		used++
	}
	if used < f.limit() {
		return false
	}
	r.say("It has no attempts left and dies at its next claim, unless publish.max_attempts is raised before.")
	return true
}

// sayAhead mentions how many events come first.
func (f facts) sayAhead(r *Result) {
	switch {
	case f.Ahead >= aheadBound:
		r.say("More than %s due events are before it.", words.Count(aheadBound))
	case f.Ahead == 0:
		r.say("Nothing is before it.")
	case f.Ahead == 1:
		r.say("1 due event is before it.")
	default:
		r.say("%s due events are before it.", words.Count(f.Ahead))
	}
}

// sayLocked names the sessions that have locked the event's row: claims pass it over.
func (f facts) sayLocked(r *Result) {
	for _, s := range f.Lockers {
		since := ""
		if s.Since != nil {
			since = ", in a transaction since " + s.Since.UTC().Format(time.RFC3339)
		}
		r.say("Its row is locked by session %d (%s, user %s%s): publishers pass it over until that transaction ends; pg_terminate_backend(%[1]d) ends it.",
			s.PID, safetext.Line(cmp.Or(s.Application, "no name")), safetext.Line(cmp.Or(s.User, "none")), since)
	}
}

func (f facts) leased(r *Result) {
	r.State = Leased
	r.say("%s is being published right now by %s, whose lease ends %s.", f.subject(), f.owner(), f.when(*f.Event.LockedUntil))
	if f.LeasedAt != nil {
		r.say("It has been held for %s.", words.Seconds(f.Now.Sub(*f.LeasedAt).Seconds()))
	}
	if f.Event.AttemptCount > 0 {
		r.say("It has failed %s before.", words.Counted(int64(f.Event.AttemptCount), "time"))
	}
	r.say("Should that one die, a publisher takes the event over when the lease ends.")
	r.do("outboxctl why %s   # again in a moment", f.EventID)
}

// sayPaused explains an operator's pause and reports whether one holds the event back.
func (f facts) sayPaused(r *Result) bool {
	if len(f.Pauses) == 0 {
		return false
	}
	p := f.Pauses[0]
	r.State = Held
	r.say("%s waits because %s paused the %s %s %s", f.subject(), p.Actor, p.Kind, p.Value, f.when(p.At))
	if p.Note != "" {
		r.say("(%s)", p.Note)
	}
	r.say("%s. It keeps its attempts and is published when the pause ends.", outbox.PauseEnds(f.Now, p.Until))
	if p.Note == outbox.HoldNote { // lifted by hand it would lose what is published before the subscriptions exist
		r.do("outboxctl topic ensure")
	} else {
		r.do("outboxctl resume --%s %s", p.Kind, safetext.QuoteWord(p.Value))
	}
	return true
}

// sayTopicDown explains a topic that is not published to and reports whether the event's is one.
func (f facts) sayTopicDown(r *Result) bool {
	p, t, paused := f.paused()
	if !paused {
		return false
	}
	r.State = Paused
	r.say("%s waits because the topic %s is %s", f.subject(), f.Topic, t.State)
	if !t.Since.IsZero() {
		r.say("since %s", f.when(t.Since))
	}
	if t.State == dispatch.TopicMisconfigured {
		r.say("on publisher %s (process %d): the broker refuses the topic.", p.Host, p.PID)
	} else {
		r.say("on publisher %s (process %d): the broker does not answer.", p.Host, p.PID)
	}
	if t.Error != "" {
		r.say("The error is: %s.", strings.TrimRight(t.Error, "."))
	}
	r.say("The event keeps its attempts and is published when the topic works again.")
	r.do("outboxctl doctor")
	if t.State == dispatch.TopicMisconfigured {
		r.do("outboxctl topic ensure")
	}
	return true
}

// sayStranded explains a type that every live publisher leaves to others and reports whether the event's is one.
func (f facts) sayStranded(r *Result) bool {
	if f.alive() == 0 {
		return false
	}
	for _, p := range f.Publishers {
		if !p.Alive {
			continue
		}
		if !p.State.Catalogue.Leaves(f.Event.Namespace, f.Event.EventType) {
			return false
		}
	}
	r.State = Stranded
	r.say("%s waits because no running publisher takes its type: each has a catalogue without it, or another version of it that the event does not fit.", f.subject())
	r.say("The event keeps its attempts and is published when a publisher with the recorded catalogue runs.")
	r.do("outboxctl registry show %s --catalogue database", f.Event.EventType)
	r.do("outboxctl publish --catalogue database")
	return true
}

// sayReplayed mentions how a dead or published event came to wait again.
func (f facts) sayReplayed(r *Result) {
	if n := len(f.Deaths); n > 0 {
		r.say("It has died %s and was replayed%s.", words.Counted(int64(n), "time"), f.lastAct(dlq.Replay))
	} else if by := f.lastAct(dlq.Republish); by != "" {
		r.say("It was published before and sent to be published again%s.", by)
	}
}

// sayPublishers mentions that there is no publisher.
func (f facts) sayPublishers(r *Result) {
	if !f.PublishersKnown || f.alive() > 0 {
		return
	}
	if r.State == Waiting {
		r.State = NoPublisher
	}
	if len(f.Publishers) > 0 {
		r.say("No publisher is running: the last heartbeat was %s, from %s.", f.when(*f.Publishers[0].LastSeenAt), f.Publishers[0].Host)
	} else {
		r.say("No publisher is running.")
	}
	r.do("outboxctl publish")
}

// owner names the publisher that holds, or held, the event's lease.
func (f facts) owner() string {
	id := textOr(f.Event.LockedBy, "none")
	for _, p := range f.Publishers {
		if p.ID == id {
			return fmt.Sprintf("publisher %s (process %d)", p.Host, p.PID)
		}
	}
	if f.PublishersKnown {
		return "holder " + id + ", which is not a registered publisher (no heartbeat)"
	}
	return "publisher " + id
}

// maximum is how many attempts the event has, in words.
func (f facts) maximum() string { return words.Count(int64(f.limit())) }

// limit is how many attempts the event has.
func (f facts) limit() int {
	if f.Event.MaxAttempts != nil {
		return *f.Event.MaxAttempts
	}
	return cmp.Or(f.Policy.MaxAttempts, f.MaxAttempts)
}

// paused finds a live publisher that does not publish to the event's topic.
func (f facts) paused() (dispatch.Peer, dispatch.TopicReport, bool) {
	for _, p := range f.Publishers {
		for _, t := range p.State.Topics {
			if p.Alive && t.Topic == f.Topic && t.State != dispatch.TopicHealthy {
				return p, t, true
			}
		}
	}
	return dispatch.Peer{}, dispatch.TopicReport{}, false
}

func (f facts) alive() (n int) {
	for _, p := range f.Publishers {
		if p.Alive {
			n++
		}
	}
	return n
}
