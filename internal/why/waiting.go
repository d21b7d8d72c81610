package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// takersShown is how many publishers are named that do not take an event.
const takersShown = 5

// waiting explains an event that is neither published nor dead.
func (f facts) waiting(r *Result) {
	e := f.Event
	switch {
	case e.LockedUntil != nil && e.LockedUntil.After(f.Now):
		f.leased(r)
	case f.sayTurn(r):
	case f.sayPaused(r):
	case f.sayStranded(r):
	case f.sayTopicDown(r):
	case e.Status == outbox.StatusScheduled:
		r.State = Scheduled
		r.say("%s is scheduled: it is published %s, and not before.", f.subject(), f.when(*e.DeliverAt))
		r.do("outboxctl event retry %s --note '…'   # now instead", e.ID)
		f.sayPublishers(r)
	case e.NextAttemptAt.After(f.Now):
		r.State = BackingOff
		next := f.when(e.NextAttemptAt)
		again := " and is tried again " + next
		if f.expired(e.NextAttemptAt) {
			again = ""
		}
		r.say("%s has failed %s of %s%s.", f.subject(), words.Counted(int64(e.AttemptCount), "time"), f.maximum(), again)
		r.say("The last error was: %s.", inWords(textOr(e.LastError, "none")))
		if !f.sayEnd(r, e.NextAttemptAt, next) {
			r.say("Nothing needs to be done unless the cause persists.")
		}
		if !f.expired(f.Now) {
			r.do("outboxctl event retry %s --note '…'   # now, when the cause is gone", e.ID)
		}
		f.sayPublishers(r)
	case e.LockedUntil != nil:
		r.State = Abandoned
		r.say("%s was being published by %s, whose lease ran out %s without a verdict: it probably crashed. The next publisher takes it over; that counts as a failed attempt (%s of %s so far).",
			f.subject(), f.owner(), f.when(*e.LockedUntil), words.Count(int64(e.AttemptCount)), f.maximum())
		f.sayEnd(r, f.Now, "then")
		f.sayPublishers(r)
	default:
		r.State = Waiting
		turn := " waits for its turn and"
		if f.expired(f.Now) {
			turn = ""
		}
		r.say("%s%s became due %s.", f.subject(), turn, f.when(e.NextAttemptAt))
		if e.AttemptCount > 0 && e.LastError != nil {
			r.say("It has failed %s of %s, the last time with: %s.", words.Counted(int64(e.AttemptCount), "time"), f.maximum(), strings.TrimRight(*e.LastError, "."))
		}
		f.sayAhead(r)
		f.sayLocked(r)
		f.sayReplayed(r)
		f.sayEnd(r, f.Now, "when a publisher next looks at it")
		f.sayPublishers(r)
		r.do("outboxctl stats")
	}
}

// sayTurn explains an event that is not the first of its ordering key, and reports whether it is
// one. What holds back the first holds back all.
func (f facts) sayTurn(r *Result) bool {
	if f.Head == nil {
		return false
	}
	ahead := words.Count(f.KeyAhead)
	if f.KeyAhead >= aheadBound {
		ahead = "more than " + words.Count(aheadBound)
	}
	head := f.Head.explain()
	r.say("%s waits its turn in the ordering key %s, %s ahead; %s", f.subject(), *f.Event.OrderingKey, ahead, head.Explanation)
	r.State, r.Commands = Waiting, head.Commands
	then := "when its turn comes"
	switch head.State {
	case Dead:
		r.State, then = Parked, "after that one is replayed or corrected, or when it is discarded"
		if f.Head.Event.ErasedAt != nil {
			then = "when that one is discarded"
		}
	case Held, Paused, Stranded, NoPublisher:
		r.State = head.State
	}
	event := "Event " + f.EventID
	if own := f.pausesBut(f.Head.Pauses); len(own) > 0 {
		if r.State != Parked {
			r.State = Held
		}
		f.sayPauses(r, event, own)
	}
	f.sayFate(r, event, then, nil)
	return true
}

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

// sayPaused explains operators' pauses and reports whether one holds the event back.
func (f facts) sayPaused(r *Result) bool {
	if len(f.Pauses) == 0 {
		return false
	}
	end := f.sayPauses(r, f.subject(), f.Pauses)
	when := "when the pause ends"
	switch n := len(f.Pauses); {
	case n == 2:
		when = "when both end"
	case n > 2:
		when = "when all of them end"
	}
	r.State = Held
	if end != nil && f.Event.Status == outbox.StatusScheduled && end.Before(*f.Event.DeliverAt) {
		r.State = Scheduled
	}
	f.sayFate(r, "It", when, end)
	return true
}

// sayPauses names pauses and what ends them, and returns when they have ended by themselves, if
// they do.
func (f facts) sayPauses(r *Result, event string, pauses []outbox.Pause) *time.Time {
	end, because := pauses[0].Until, event+" waits because"
	for _, p := range pauses {
		r.say("%s %s paused the %s %s %s", because, p.Actor, p.Kind, p.Value, f.when(p.At))
		if p.Note != "" {
			r.say("(%s)", p.Note)
		}
		r.say("%s.", outbox.PauseEnds(f.Now, p.Until))
		r.do("outboxctl resume --%s %s", p.Kind, safetext.QuoteWord(p.Value))
		if p.Until == nil || end != nil && p.Until.After(*end) {
			end = p.Until
		}
		because = "Besides,"
	}
	return end
}

// pausesBut are the pauses that hold the event back and are not among others.
func (f facts) pausesBut(others []outbox.Pause) []outbox.Pause {
	return slices.DeleteFunc(slices.Clone(f.Pauses), func(p outbox.Pause) bool {
		return slices.ContainsFunc(others, func(o outbox.Pause) bool { return o.Name() == p.Name() })
	})
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
	broker := "does not answer"
	r.do("outboxctl doctor")
	if t.State == dispatch.TopicMisconfigured {
		broker = "refuses the topic"
		r.do("outboxctl topic ensure")
	}
	r.say("on publisher %s (process %d): the broker %s.", p.Host, p.PID, broker)
	if t.Error != "" {
		r.say("The error is: %s.", strings.TrimRight(t.Error, "."))
	}
	f.sayFate(r, "The event", "when the topic works again", nil)
	return true
}

// sayStranded explains that every live publisher leaves the event to others and reports whether
// they do.
func (f facts) sayStranded(r *Result) bool {
	e, live := f.Event, f.live()
	stranded, told := dispatch.Stranded(live, f.Names, e.Namespace, e.EventType, textOr(e.TenantID, ""))
	if !stranded {
		return false
	}
	r.State = Stranded
	if told {
		r.say("%s waits because no running publisher takes it: %s.", f.subject(), f.takers(live))
		r.do("outboxctl publish --namespace %s", safetext.QuoteWord(e.Namespace))
		f.sayFate(r, "The event", "when a publisher runs that takes it", nil)
		return true
	}
	r.say("%s waits because no running publisher takes its type: each has a catalogue without it, or another version of it that the event does not fit.", f.subject())
	r.do("outboxctl registry show %s --catalogue database", f.Event.EventType)
	r.do("outboxctl publish --catalogue database")
	f.sayFate(r, "The event", "when a publisher with the recorded catalogue runs", nil)
	return true
}

// takers says what publishers take, of which none takes the event.
func (f facts) takers(live []dispatch.Peer) string {
	var all []string
	for i, p := range live {
		if i == takersShown {
			all = append(all, fmt.Sprintf("%d more take other things", len(live)-i))
			break
		}
		takes := "takes " + p.State.Takes.String()
		if p.State.Catalogue.Leaves(f.Event.Namespace, f.Event.EventType) {
			takes = "does not know its type as it is recorded"
		}
		all = append(all, fmt.Sprintf("%s (process %d) %s", p.Host, p.PID, takes))
	}
	return strings.Join(all, ", ")
}

func (f facts) sayReplayed(r *Result) {
	if n := len(f.Deaths); n > 0 {
		r.say("It has died %s and was replayed%s.", words.Counted(int64(n), "time"), f.lastAct(dlq.Replay))
	} else if by := f.lastAct(dlq.Republish); by != "" {
		r.say("It was published before and sent to be published again%s.", by)
	}
}

func (f facts) sayPublishers(r *Result) {
	if !f.PublishersKnown || len(f.live()) > 0 {
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
	for _, p := range f.live() {
		for _, t := range p.State.Topics {
			if t.Topic == f.Topic && t.State != dispatch.TopicHealthy {
				return p, t, true
			}
		}
	}
	return dispatch.Peer{}, dispatch.TopicReport{}, false
}

func (f facts) live() []dispatch.Peer {
	return slices.DeleteFunc(slices.Clone(f.Publishers), func(p dispatch.Peer) bool { return !p.Alive })
}
