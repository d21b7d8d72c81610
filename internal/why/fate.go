package why

import (
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// expiry is from when on the event is not published any more; zero: it always is.
func (f facts) expiry() (at time.Time) {
	if f.Policy.ExpiresAfter == 0 {
		return at
	}
	if from := f.Event.DeliverAt; from != nil {
		return from.Add(f.Policy.ExpiresAfter)
	}
	return f.Event.CreatedAt.Add(f.Policy.ExpiresAfter)
}

// expired reports whether a publisher that looks at the event then lets it die.
func (f facts) expired(then time.Time) bool {
	at := f.expiry()
	return !at.IsZero() && !then.Before(at)
}

// sayEnd foresees that the event dies when it is looked at next, and reports whether it does.
func (f facts) sayEnd(r *Result, next time.Time, when string) bool {
	if f.sayLastAttempt(r, "It") {
		return true
	}
	if !f.expired(next) {
		return false
	}
	f.sayExpires(r, "It", when)
	return true
}

func (f facts) sayExpires(r *Result, event, when string) {
	r.say("%s was to be published within %s, which its type allows: it dies with the reason expired %s, and can be replayed then.",
		event, wire.SpanText(f.Policy.ExpiresAfter), when)
}

// sayFate tells what becomes of the event when that ends which holds it back, at the time end where
// that is known.
func (f facts) sayFate(r *Result, event, when string, end *time.Time) {
	if f.sayLastAttempt(r, event) {
		return
	}
	e, expiry := f.Event, f.expiry()
	next := f.when(e.NextAttemptAt)
	switch {
	case e.Status == outbox.StatusScheduled:
		r.say("%s is scheduled for %s.", event, next)
		event, when = "It", when+", and not before its time"
		r.do("outboxctl event retry %s --note '…'   # at once then", e.ID)
	case e.NextAttemptAt.After(f.Now) && e.AttemptCount > 0 && !f.expired(f.Now):
		r.say("%s has failed %s of %s and is not tried again before %s.", event,
			words.Counted(int64(e.AttemptCount), "time"), f.maximum(), next)
		event, when = "It", when+", and not before that"
		r.do("outboxctl event retry %s --note '…'   # at once then", e.ID)
	}
	switch {
	case f.expired(f.Now):
		f.sayExpires(r, event, when)
	case expiry.IsZero(), end != nil && !f.expired(*end):
		r.say("%s keeps its attempts and is published %s.", event, when)
	default:
		r.say("%s keeps its attempts and is published %s, if that is before %s: after that it dies with the reason expired.", event, when, f.when(expiry))
	}
}

// sayLastAttempt foresees the death of an event that has used up its attempts: the maximum was
// lowered, or its publishers ended without a verdict. A lease that has run out is charged with the
// next claim.
func (f facts) sayLastAttempt(r *Result, event string) bool {
	used := f.Event.AttemptCount
	if f.Event.LockedUntil != nil {
		used++
	}
	if used < f.limit() {
		return false
	}
	r.say("%s has no attempts left and dies at its next claim, unless publish.max_attempts is raised before.", event)
	return true
}
