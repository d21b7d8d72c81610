package check

import (
	"slices"

	"github.com/outboxctl/outboxctl/lab/history"
)

// effects is I6.
func (c *checker) effects(e *event) {
	if !e.committed() || len(e.stored) == 0 || !c.handled[e.eventType()] {
		return
	}
	for _, consumer := range c.h.Run.Consumers {
		c.checked("I6")
		if n := e.effectsOf(consumer); n != 1 {
			c.violate("I6", e.id, "%s has %d effects of it, after %d runs of the handler and %d messages", consumer, n,
				len(e.runsOf(consumer)), len(e.stored))
			continue
		}
		if !slices.Contains(c.h.Run.InboxGuarded, consumer) {
			c.handlerRuns(e, consumer)
		}
	}
}

// handlerRuns demands a cause for a handler that ran again although Redis keeps what is done.
func (c *checker) handlerRuns(e *event, consumer string) {
	runs := e.runsOf(consumer)
	if len(runs) < 2 {
		return
	}
	first, last := runs[0].At, runs[len(runs)-1].At
	explained := slices.ContainsFunc(c.causes, func(f cause) bool {
		return c.onConsumer(f, consumer) && within(f.from.Add(-consumerLease), f.to.Add(consumerLease), first, last)
	})
	if !explained {
		c.violate("I6", e.id, "%s ran its handler %d times, from %s to %s, and no fault explains it",
			consumer, len(runs), clock(first), clock(last))
	}
}

func (e *event) eventType() string {
	if row := e.row(); row != nil {
		return row.Type
	}
	if e.intent != nil {
		return e.intent.Type
	}
	return ""
}

func (e *event) effectsOf(consumer string) (n int) {
	for _, f := range e.effects {
		if f.Consumer == consumer {
			n += f.Count
		}
	}
	return n
}

func (e *event) runsOf(consumer string) (runs []*history.Handled) {
	for _, h := range e.handled {
		if h.Consumer == consumer {
			runs = append(runs, h)
		}
	}
	return runs
}
