package why

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// The states in which Why finds an event.
const (
	Waiting     = "waiting"
	NoPublisher = "no_publisher"
	BackingOff  = "backing_off"
	Scheduled   = "scheduled"
	Leased      = "leased"
	Abandoned   = "lease_expired"
	Paused      = "topic_paused"
	Stranded    = "stranded"
	Held        = "paused"
	Parked      = "parked"
	Dead        = "dead"
	Discarded   = "discarded"
	Published   = "published"
	CleanedUp   = "cleaned_up"
	NotFound    = "not_found"
)

// Params names an event.
type Params struct {
	// ID is the event's or a dead letter's.
	ID string
	// MaxAttempts is how often the publishers try an event that does not set a limit of its own.
	MaxAttempts int
}

// Result explains in plain words where an event is and what can be done.
type Result struct {
	EventID string `json:"eventId"`
	State   string `json:"state"`
	// Explanation is one paragraph.
	Explanation string `json:"explanation"`
	// Commands act on the event.
	Commands []string `json:"commands"`
}

// Explain explains where an event is. An event that is not in the database is a result (NotFound),
// not an error.
func Explain(ctx context.Context, o *dlq.Outbox, p Params) (Result, error) {
	id, err := outbox.ParseID(p.ID)
	if err != nil {
		return Result{}, err
	}
	if id, err = o.Complete(ctx, id); err != nil {
		return Result{}, err
	}
	f, err := gather(ctx, o, id, p.MaxAttempts)
	if err != nil {
		return Result{}, err
	}
	return f.explain(), nil
}

func (f facts) explain() Result {
	r := Result{EventID: f.EventID, Commands: []string{}}
	switch {
	case f.Event == nil:
		f.absent(&r)
	case f.Event.PublishedAt != nil:
		f.published(&r)
	case f.Event.DeadAt != nil:
		f.dead(&r)
	default:
		f.waiting(&r)
	}
	return r
}

func (r *Result) say(format string, args ...any) {
	if r.Explanation != "" {
		r.Explanation += " "
	}
	r.Explanation += fmt.Sprintf(format, args...)
}

func (r *Result) do(format string, args ...any) {
	r.Commands = append(r.Commands, fmt.Sprintf(format, args...))
}

func (f facts) when(t time.Time) string {
	return fmt.Sprintf("%s (%s)", words.Relative(t, f.Now), t.UTC().Format(time.RFC3339))
}

func (f facts) subject() string {
	e := f.Event
	if f.First {
		return fmt.Sprintf("the first, %s,", e.ID)
	}
	return fmt.Sprintf("The %s event %s of %s %s, emitted %s,", e.EventType, e.ID, e.AggregateType, e.AggregateID, f.when(e.CreatedAt))
}

func (f facts) absent(r *Result) {
	if len(f.Deaths) > 0 {
		last := f.Deaths[len(f.Deaths)-1]
		r.State = CleanedUp
		r.say("The %s event %s is no longer in the outbox: cleanup removed it. Its dead letter %s is still here: it died %s of %s, and was last %s.",
			last.EventType, f.EventID, last.ID, f.when(last.FailedAt), last.Reason, last.State)
		if last.ErasedAt != nil {
			r.say("What it carried was erased %s: it cannot be emitted again.", f.when(*last.ErasedAt))
			r.do("outboxctl dlq show %s", last.ID)
			return
		}
		r.say("It cannot be replayed, but its content can be emitted as a new event.")
		r.do("outboxctl dlq show %s", last.ID)
		r.do("outboxctl dlq export %s > event.jsonl   # edit, then: outboxctl emit --stdin < event.jsonl", last.ID)
		return
	}
	if f.sayRemoved(r) {
		return
	}
	r.State = NotFound
	r.say("No event %s is in this database.", f.EventID)
	if !f.MadeAt.IsZero() && f.MadeAt.Before(f.Now.Add(24*time.Hour)) {
		r.say("Its id was made %s.", f.when(f.MadeAt))
	}
	if !f.CleanupAt.IsZero() {
		if f.MadeAt.IsZero() || f.MadeAt.Before(f.CleanupOlderThan) {
			r.say("A cleanup %s removed events published before %s: if it is older than that, it was published and cleaned up.",
				f.when(f.CleanupAt), f.CleanupOlderThan.UTC().Format(time.RFC3339))
		} else {
			r.say("It is too young to have been cleaned up.")
		}
	}
	r.say("Otherwise the transaction that emitted it was rolled back or is still open, or it was emitted to another database.")
	r.do("outboxctl config view   # which database is this?")
	r.do("outboxctl consumer show %s   # has a consumer seen it?", f.EventID)
}

// sayRemoved tells of an event of which only what operators did is left, and reports whether there
// is such.
func (f facts) sayRemoved(r *Result) bool {
	// What a consumer forgot may be another database's event.
	audit := slices.DeleteFunc(slices.Clone(f.Audit), func(a dlq.AuditRow) bool {
		return a.Action == idem.ActionForget || a.Action == idem.ActionForgetUndone
	})
	if len(audit) == 0 {
		return false
	}
	last := audit[len(audit)-1]
	r.State = CleanedUp
	r.say("Event %s is no longer in the outbox, but it was: %s %s by %s.", f.EventID, dlq.ActionWord(last), f.when(last.At), last.Actor)
	r.do("outboxctl audit --event %s", f.EventID)
	switch end, correction := f.ending(audit); {
	case correction != "":
		r.say("It was not published: it was corrected, replaced by event %s, and cleaned up since.", correction)
		r.do("outboxctl why %s", correction)
	case end == endDiscarded:
		r.say("It was not published after it was discarded, and cleaned up since.")
		if by := f.lastAct(dlq.Republish); by != "" {
			r.say("It had been published before it was sent to be published again%s.", by)
		}
	case end == endUnsure:
		r.say("It was published, or discarded with that, and cleaned up since.")
	default:
		r.say("What is neither published nor discarded stays, so the broker has it, and the row was cleaned up since.")
	}
	return true
}

// How an event ended that cleanup removed with its dead letters.
type ending int

const (
	endPublished ending = iota
	endDiscarded
	// endUnsure: one run erased events that waited, which discards them, and others.
	endUnsure
)

// ending is how the event ended by what operators did to it last, and the event that replaced it
// where it was corrected.
func (f facts) ending(audit []dlq.AuditRow) (end ending, correction string) {
	for _, a := range slices.Backward(audit) {
		var detail struct {
			Discarded   int64  `json:"discarded"`
			CorrectedBy string `json:"correctedBy"`
		}
		_ = json.Unmarshal(a.Detail, &detail) // written by the database
		switch dlq.Action(a.Action) {
		case dlq.Discard:
			return endDiscarded, ""
		case dlq.Edit:
			if detail.CorrectedBy != f.EventID {
				return endDiscarded, detail.CorrectedBy
			}
			return end, ""
		case dlq.Erase:
			if detail.Discarded == a.Affected {
				return endDiscarded, ""
			}
			if detail.Discarded > 0 {
				end = endUnsure
			}
		case dlq.Replay, dlq.Restore, dlq.Republish, dlq.Retry:
			return end, ""
		}
	}
	return end, ""
}

func (f facts) published(r *Result) {
	e := f.Event
	r.State = Published
	r.say("%s was published %s", f.subject(), f.when(*e.PublishedAt))
	if e.BrokerMessageID != nil {
		r.say("with message id %s.", *e.BrokerMessageID)
	} else {
		r.Explanation += "."
	}
	if e.AttemptCount > 0 {
		r.say("It took %s before that.", words.Counted(int64(e.AttemptCount), "failed attempt"))
	}
	if e.ErasedAt != nil {
		r.say("What it carried was erased%s: it cannot be published once more.", f.lastAct(dlq.Erase))
		r.do("outboxctl consumer show %s", e.ID)
		return
	}
	if len(f.Failures) > 0 {
		f.failing(r)
		return
	}
	r.say("What happens next is the consumers' responsibility: a consumer that missed it can be asked about, and the event can be published once more.")
	r.do("outboxctl consumer show %s", e.ID)
	r.do("outboxctl event republish %s --note '…'", e.ID)
}

func (f facts) failing(r *Result) {
	for _, c := range f.Failures {
		next := "It is tried again."
		if c.State == consumers.GaveUp {
			next = "It is not tried again by itself."
		}
		r.say("Consumer %s fails to handle it: %s since %s, the last one %s: %s. %s", c.Consumer, words.Counted(int64(c.Attempts), "attempt"),
			f.when(c.FirstAt), f.when(c.LastAt), inWords(c.LastError), next)
	}
	r.say("Fix the consumer; a copy can then be published, which the other consumers skip.")
	r.do("outboxctl consumer show %s", f.EventID)
	r.do("outboxctl consumer retry %s %s --note '…'", f.Failures[0].Consumer, f.EventID)
}

func (f facts) dead(r *Result) {
	e := f.Event
	r.State = Dead
	r.say("%s died %s", f.subject(), f.when(*e.DeadAt))
	if len(f.Deaths) == 0 {
		r.say("although it has no dead letter; its last error was: %s.", inWords(textOr(e.LastError, "none")))
		return
	}
	last := f.Deaths[len(f.Deaths)-1]
	if e.ErasedAt != nil {
		r.say("after %s, for the reason %s.", words.Counted(int64(last.AttemptCount), "failed attempt"), last.Reason)
		f.deadErased(r, last)
		return
	}
	r.say("after %s, for the reason %s: %s.", words.Counted(int64(last.AttemptCount), "failed attempt"), last.Reason, inWords(last.ErrorMessage))
	if n := len(f.Deaths); n > 1 {
		r.say("It has died %d times.", n)
	}
	if last.State == dlq.StateDiscarded {
		r.State = Discarded
		if by := last.CorrectedBy; by != nil {
			r.say("It was corrected%s, replaced by event %s.", f.lastAct(dlq.Edit), *by)
			r.do("outboxctl why %s", *by)
			return
		}
		r.say("It was discarded%s. Nothing will happen to it until it is restored, or removed by cleanup.", f.lastAct(dlq.Discard))
		r.do("outboxctl dlq restore %s --note '…'", last.ID)
		return
	}
	f.sayBehind(r)
	r.say("It will not be tried again by itself. %s", remedy(last.Reason))
	r.putRight(last.ID, last.Reason)
}

// deadErased tells of a dead event of which nothing is left to send.
func (f facts) deadErased(r *Result, last dlq.Entry) {
	r.say("What it carried was erased%s: it cannot be sent any more.", f.lastAct(dlq.Erase))
	if last.State == dlq.StateDiscarded {
		r.State = Discarded
		r.do("outboxctl dlq show %s", last.ID)
		return
	}
	f.sayBehind(r)
	r.do("outboxctl dlq discard %s --note '…'", last.ID)
}

// sayBehind mentions what a dead event keeps from being published.
func (f facts) sayBehind(r *Result) {
	switch n := f.KeyBehind; {
	case n >= aheadBound:
		r.say("More than %s events of its ordering key %s wait behind it.", words.Count(aheadBound), *f.Event.OrderingKey)
	case n == 1:
		r.say("1 event of its ordering key %s waits behind it.", *f.Event.OrderingKey)
	case n > 1:
		r.say("%s events of its ordering key %s wait behind it.", words.Count(n), *f.Event.OrderingKey)
	}
}

// putRight names the commands for an open dead letter. One that would fail again unchanged has to
// be corrected; an edit changes the payload alone.
func (r *Result) putRight(letter, reason string) {
	r.do("outboxctl dlq show %s --payload pretty", letter)
	switch outbox.DeadReason(reason) {
	case outbox.ReasonMaxAttempts, outbox.ReasonRejectedByBroker, outbox.ReasonExpired, outbox.ReasonUnknownEventType:
		r.do("outboxctl dlq replay %s --note '…'", letter)
	case outbox.ReasonAggregateMismatch:
		r.do("outboxctl dlq export %s", letter)
	default:
		r.do("outboxctl dlq edit %s --note '…'", letter)
	}
	r.do("outboxctl dlq discard %s --note '…'", letter)
}

func remedy(reason string) string {
	switch outbox.DeadReason(reason) {
	case outbox.ReasonMaxAttempts:
		return "Once the cause is gone, replay it."
	case outbox.ReasonExpired:
		return "If it is still of use, replay it: its time then counts from the replay."
	case outbox.ReasonRejectedByBroker:
		return "The broker refused this message alone; when its rules were changed, replay it."
	case outbox.ReasonUnknownEventType:
		return "A publisher that knows its type can publish it after a replay."
	case outbox.ReasonAggregateMismatch:
		return "Its type belongs to another aggregate type: export it, correct it and emit it as a new event, or discard it."
	default:
		return "Replaying it would fail the same way: correct it, which emits a new event in its place, or discard it."
	}
}

// lastAct returns when an operator last did something to the event, and why; empty when none did.
func (f facts) lastAct(action dlq.Action) string {
	for _, a := range slices.Backward(f.Audit) {
		if a.Action == string(action) {
			by := fmt.Sprintf(" %s by %s", f.when(a.At), a.Actor)
			if a.Note != "" {
				by += fmt.Sprintf(" (%s)", a.Note)
			}
			return by
		}
	}
	return ""
}

// inWords is an error as a part of a sentence: its first line, without the full stop.
func inWords(text string) string {
	return strings.TrimRight(safetext.Line(safetext.FirstLine(text)), ".")
}

func textOr(s *string, otherwise string) string { return *cmp.Or(s, &otherwise) }
