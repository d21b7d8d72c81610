package dlq

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// The answers why can give.
const (
	WhyWaiting     = "waiting"
	WhyNoPublisher = "no_publisher"
	WhyBackingOff  = "backing_off"
	WhyScheduled   = "scheduled"
	WhyLeased      = "leased"
	WhyAbandoned   = "lease_expired"
	WhyPaused      = "topic_paused"
	WhyDead        = "dead"
	WhyDiscarded   = "discarded"
	WhyPublished   = "published"
	WhyCleanedUp   = "cleaned_up"
	WhyNotFound    = "not_found"
)

// Answer says in plain words where an event is and what can be done.
type Answer struct {
	EventID     string   `json:"eventId"`
	State       string   `json:"state"`
	Explanation string   `json:"explanation"`
	Commands    []string `json:"commands"`
}

// Why turns facts into one paragraph.
func Why(f Facts) Answer {
	a := Answer{EventID: f.EventID, Commands: []string{}}
	switch {
	case f.Event == nil:
		f.absent(&a)
	case f.Event.PublishedAt != nil:
		f.published(&a)
	case f.Event.DeadAt != nil:
		f.dead(&a)
	default:
		f.waiting(&a)
	}
	return a
}

func (a *Answer) say(format string, args ...any) {
	if a.Explanation != "" {
		a.Explanation += " "
	}
	a.Explanation += fmt.Sprintf(format, args...)
}

func (a *Answer) do(format string, args ...any) {
	a.Commands = append(a.Commands, fmt.Sprintf(format, args...))
}

func (f Facts) when(t time.Time) string {
	return fmt.Sprintf("%s (%s)", humanize.RelTime(t, f.Now, "ago", "from now"), t.UTC().Format(time.RFC3339))
}

func (f Facts) subject() string {
	e := f.Event
	return fmt.Sprintf("The %s event %s of %s %s, emitted %s,", e.EventType, e.ID, e.AggregateType, e.AggregateID, f.when(e.CreatedAt))
}

func (f Facts) absent(a *Answer) {
	if len(f.Deaths) > 0 {
		last := f.Deaths[len(f.Deaths)-1]
		a.State = WhyCleanedUp
		a.say("The %s event %s is no longer in the outbox: cleanup removed it. Its dead letter %s is still here: it died %s of %s, and was last %s.",
			last.EventType, f.EventID, last.ID, f.when(last.FailedAt), last.Reason, last.State)
		a.say("It cannot be replayed, but its content can be emitted as a new event.")
		a.do("outboxctl dlq show %s", last.ID)
		a.do("outboxctl dlq export %s > event.jsonl   # edit, then: outboxctl emit --stdin < event.jsonl", last.ID)
		return
	}
	// What a consumer forgot may be another database's event.
	audit := slices.DeleteFunc(slices.Clone(f.Audit), func(a AuditRow) bool {
		return a.Action == forgetAction || a.Action == forgetUndoneAction
	})
	if len(audit) > 0 {
		last := audit[len(audit)-1]
		a.State = WhyCleanedUp
		a.say("Event %s is no longer in the outbox, but it was: %s %s by %s. Events are removed only after they were published, so the broker has it, and the row was cleaned up since.",
			f.EventID, actionWord(last), f.when(last.At), last.Actor)
		a.do("outboxctl dlq audit --event %s", f.EventID)
		return
	}
	a.State = WhyNotFound
	a.say("No event %s is in this database.", f.EventID)
	if !f.MadeAt.IsZero() && f.MadeAt.Before(f.Now.Add(24*time.Hour)) {
		a.say("Its id was made %s.", f.when(f.MadeAt))
	}
	if !f.CleanupAt.IsZero() {
		if f.MadeAt.IsZero() || f.MadeAt.Before(f.CleanupOlderThan) {
			a.say("A cleanup %s removed events published before %s: if it is older than that, it was published and cleaned up.",
				f.when(f.CleanupAt), f.CleanupOlderThan.UTC().Format(time.RFC3339))
		} else {
			a.say("It is too young to have been cleaned up.")
		}
	}
	a.say("Otherwise the transaction that emitted it was rolled back or is still open, or it was emitted to another database.")
	a.do("outboxctl config view   # which database is this?")
	a.do("outboxctl idem show %s   # has a consumer seen it?", f.EventID)
}

func (f Facts) published(a *Answer) {
	e := f.Event
	a.State = WhyPublished
	a.say("%s was published %s", f.subject(), f.when(*e.PublishedAt))
	if e.BrokerMessageID != nil {
		a.say("under message id %s.", *e.BrokerMessageID)
	} else {
		a.Explanation += "."
	}
	if e.AttemptCount > 0 {
		a.say("It took %s before that.", plural(e.AttemptCount, "failed attempt"))
	}
	a.say("What happens next is the consumers' affair: a consumer that missed it can be asked about, and the event can be published once more.")
	a.do("outboxctl idem show %s", e.ID)
	a.do("outboxctl event republish %s --note '…'", e.ID)
}

func (f Facts) dead(a *Answer) {
	e := f.Event
	a.State = WhyDead
	a.say("%s is dead since %s", f.subject(), f.when(*e.DeadAt))
	if len(f.Deaths) == 0 {
		a.say("although it has no dead letter; its last error was: %s.", text(e.LastError))
		return
	}
	last := f.Deaths[len(f.Deaths)-1]
	a.say("after %s, for the reason %s: %s.", plural(last.AttemptCount, "failed attempt"), last.Reason, strings.TrimRight(last.ErrorMessage, "."))
	if n := len(f.Deaths); n > 1 {
		a.say("It has died %d times.", n)
	}
	if last.State == StateDiscarded {
		a.State = WhyDiscarded
		a.say("It was discarded%s. Nothing will happen to it until it is restored, or removed by cleanup.", f.lastAct(Discard))
		a.do("outboxctl dlq restore %s --note '…'", last.ID)
		return
	}
	a.say("It will not be tried again by itself. %s", remedy(last.Reason))
	a.do("outboxctl dlq show %s --payload pretty", last.ID)
	if last.Reason == "max_attempts" || last.Reason == "rejected_by_broker" {
		a.do("outboxctl dlq replay %s --note '…'", last.ID)
	} else {
		a.do("outboxctl dlq export %s > event.jsonl   # edit, then: outboxctl emit --stdin < event.jsonl", last.ID)
	}
	a.do("outboxctl dlq discard %s --note '…'", last.ID)
}

// remedy says what usually helps against a reason.
func remedy(reason string) string {
	switch reason {
	case "max_attempts":
		return "Once the cause is gone, replay it."
	case "rejected_by_broker":
		return "The broker refused this message alone; when its rules were changed, replay it."
	case "unknown_event_type":
		return "A publisher that knows its type can deliver it after a replay; otherwise export, correct and emit it anew."
	default:
		return "Replaying it would fail the same way: export it, correct it and emit it as a new event, then discard this one."
	}
}

func (f Facts) lastAct(action Action) string {
	for i := len(f.Audit) - 1; i >= 0; i-- {
		if a := f.Audit[i]; Action(a.Action) == action {
			by := fmt.Sprintf(" %s by %s", f.when(a.At), a.Actor)
			if a.Reason != "" {
				by += fmt.Sprintf(" (%s)", a.Reason)
			}
			return by
		}
	}
	return ""
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(int64(n)) + " " + noun + "s"
}
