package check

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/lab/history"
)

// duplicates is I12 for one event: each message after the first has a fault, or an operator, behind it.
func (c *checker) duplicates(e *event) {
	if len(e.stored) == 0 {
		return
	}
	c.checked("I12")
	first := e.stored[0]
	for _, again := range e.stored[1:] {
		c.report.Figures.Duplicates++
		kind := c.explain(e, first.At, again.At)
		if kind == "" {
			c.violate("I12", e.id, "was stored at %s and again at %s, as messages %s and %s, and no fault explains it",
				clock(first.At), clock(again.At), first.MessageID, again.MessageID)
			kind = unexplained
		}
		c.report.Figures.count(&c.report.Figures.DuplicatesBy, kind)
	}
}

// Explanations that are no fault.
const (
	byReplay    = "replay"
	unexplained = "unexplained"
)

// explain names the cause of a second message: the fault that began last among those that may be felt in between.
func (c *checker) explain(e *event, first, again time.Time) (kind string) {
	for _, ch := range e.changes {
		if kindOf(ch) == replayed && within(ch.At, ch.At, first, again) {
			return byReplay
		}
	}
	var latest time.Time
	for _, f := range c.causes {
		if c.onPublishing(f) && within(f.from, f.to.Add(c.h.Run.Lease+afterFault), first, again) && !f.from.Before(latest) {
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
	extra := c.report.Figures.Duplicates - by[byReplay] - by[unexplained]
	if bound := faults * c.h.Run.MaxInFlight; extra > bound {
		c.violate("I12", "", "%d duplicates are more than %d faults with %d events in flight allow", extra, faults, c.h.Run.MaxInFlight)
	}
}

// releases is I12 for rows given back as never sent: when the first holder of a row has sent it, another one will send it
// again. What was refused together with a bad neighbour, and not sent again without it, may be given back.
func (c *checker) releases(e *event) {
	var claims []*history.Change
	for _, ch := range e.changes {
		if kindOf(ch) == claim {
			claims = append(claims, ch)
		}
	}
	if len(claims) == 0 {
		return
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
				c.violate("I12", e.id, "was released by %s at %s as never sent, but reached the broker at %s", ch.By, clock(ch.At), clock(a.At))
				return
			}
		}
		return
	}
}
