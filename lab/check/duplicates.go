package check

import (
	"regexp"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/lab/history"
)

// duplicates is I12 for one event: each message after the first has a cause that is its own. A
// fault nearby is none.
func (c *checker) duplicates(e *event) {
	if len(e.stored) == 0 {
		return
	}
	c.checked("I12")
	first := e.stored[0]
	for _, again := range e.stored[1:] {
		c.report.Figures.Duplicates++
		kind := c.explain(e, first, again)
		if kind == "" {
			c.violate("I12", e.id, "was stored at %s and again at %s, as messages %s and %s, and nothing that happened to its row or its publisher explains it",
				clock(first.At), clock(again.At), first.MessageID, again.MessageID)
			kind = unexplained
		}
		add(&c.report.Figures.DuplicatesBy, kind, 1)
		first = again
	}
}

// Explanations that are no fault.
const (
	byReplay     = "replay"
	byLostReply  = "lost reply"
	byExpiry     = "expired lease"
	byTimeout    = "timeout"
	unexplained  = "unexplained"
	afterNetwork = time.Second // bytes that were held back arrive after the fault
)

// timedOut is how each broker's client says that it gave up waiting.
var timedOut = regexp.MustCompile(`deadline exceeded|timeout`)

// explain names the cause of a second message: an operator replayed the event, the broker's reply
// to the first was lost, the lease under which it was sent expired without a verdict, or what a
// publisher reported as failed had a fault of that very publisher, or of the broker, between it and
// the reply. A publisher that gave up waiting without a fault is on a machine that is too slow: such
// a run is invalid.
func (c *checker) explain(e *event, first, again *history.Arrival) string {
	if first.ReplyLost || first.Code != "" {
		return byLostReply
	}
	for _, ch := range e.changes {
		if ch.At.After(again.At.Add(clockError)) {
			break
		}
		late := ch.At.After(first.At.Add(-clockError))
		switch kind := kindOf(ch); {
		case kind == replayed && late:
			return byReplay
		case c.overtaken(ch):
			// A holder that was stopped and overtaken may be the one that sends the second message.
			if late || c.faultBetween(c.owner[ch.Before.Lease.By], first.At, again.At) != "" {
				return byExpiry
			}
		case (kind == failed || kind == released) && late:
			if fault := c.faultBetween(ch.By, first.At, ch.At); fault != "" {
				return fault
			}
			if timedOut.MatchString(ch.After.LastError) {
				return byTimeout
			}
		}
	}
	return ""
}

// faultBetween names the fault that began last among those that kept a publisher from hearing the
// broker between two moments.
func (c *checker) faultBetween(publisher string, from, to time.Time) (kind string) {
	var latest time.Time
	for _, f := range c.causes {
		if c.deafens(f, publisher) && within(f.from, f.to.Add(afterNetwork), from, to) &&
			!f.from.Before(latest) {
			latest, kind = f.from, f.kind
		}
	}
	return kind
}

// duplicateBound is I12 for the run: a fault costs no more than what one publisher has in flight.
func (c *checker) duplicateBound() {
	faults := 0
	for _, f := range c.causes {
		if c.onPublishing(f) {
			faults++
		}
	}
	by := c.report.Figures.DuplicatesBy
	extra := c.report.Figures.Duplicates - by[byReplay] - by[byTimeout] - by[unexplained]
	if bound := faults * c.h.Run.MaxInFlight; extra > bound {
		c.violate("I12", "", "%d duplicates are more than %d faults with %d events in flight allow",
			extra, faults, c.h.Run.MaxInFlight)
	}
}

// releases is I12 for rows given back as never sent: when the first holder of a row has sent it,
// another one will send it again. What was refused together with a bad neighbour, and not sent
// again without it, may be given back.
func (c *checker) releases(e *event) {
	var claims []*history.Change
	for _, ch := range e.changes {
		if kindOf(ch) == claim {
			claims = append(claims, ch)
		}
	}
	if len(claims) == 0 || (e.row() != nil && e.row().OrderingKey != "") {
		return // what follows a failure in its ordering key is given back although it may have been sent in the same request
	}
	until := c.h.Run.Ended
	if len(claims) > 1 {
		until = claims[1].At.Add(-10 * clockError)
	}
	for _, ch := range e.changes {
		if kindOf(ch) != released {
			continue
		}
		if len(claims) > 1 && ch.Seq > claims[1].Seq {
			return // a later lease: the message may be its predecessor's
		}
		for _, a := range e.arrivals {
			// Who claims next sends later than that, so this was sent by the one who said it was not.
			if a.At.After(claims[0].At) && a.At.Before(until) && a.Code != codes.InvalidArgument.String() {
				c.violate("I12", e.id, "was released by %s at %s as never sent, but reached the broker at %s",
					ch.By, clock(ch.At), clock(a.At))
				return
			}
		}
		return
	}
}
