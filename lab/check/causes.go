package check

import (
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

// consumerLease is how long a consumer that vanished keeps an event for itself.
const consumerLease = 60 * time.Second

// cause is something that was done to the system, over the time it may be felt.
type cause struct {
	kind, target string
	from, to     time.Time
}

// causes are the injected faults, and the ends of processes that no fault announces. A fault that
// failed is among them: it may have done half of its work, and who was to die in a failpoint was
// killed once before.
func causes(h *history.History) []cause {
	var all []cause
	for _, f := range h.Faults {
		if f.To.Before(f.From) {
			f.To = f.From // over at once
		}
		all = append(all, cause{f.Kind, f.Target, f.From, f.To})
	}
	injected := all
	for _, p := range h.Processes {
		if p.Event != "exited" || p.At.After(h.Run.LastFault) || announced(injected, p) {
			continue // after the last fault they are told to go home
		}
		kind := "exit"
		if p.Failpoint != "" {
			kind = "crash in " + p.Failpoint
		}
		all = append(all, cause{kind, p.Name, p.At, p.At})
	}
	return all
}

// announced reports whether a process ended during a fault on it, or right after: who is told to
// end takes a moment.
func announced(injected []cause, p history.Process) bool {
	return slices.ContainsFunc(injected, func(f cause) bool {
		return f.target == p.Name && within(f.from, f.to.Add(time.Second), p.At, p.At)
	})
}

// about reports whether a fault concerns something, by its kind or target.
func (f cause) about(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.Contains(f.kind, word) || strings.Contains(f.target, word)
	})
}

// onPublishing reports whether a fault can make an event arrive twice: it hit a publisher, its
// networks, the database or the broker.
func (x *index) onPublishing(f cause) bool {
	return !slices.Contains(x.h.Run.Consumers, f.target) && !f.about("redis", "consumer", "producer", "operator")
}

// deafens reports whether a fault can keep a publisher from hearing the broker's reply. An error of
// the broker's is a reply, and a reply that the broker loses is recorded with its arrival.
func (x *index) deafens(f cause, publisher string) bool {
	if target, link, _ := strings.Cut(f.target, "/"); target == publisher {
		return link == "" || link == "broker"
	}
	return f.about("broker.away", "broker.slow")
}

// onConsumer reports whether a fault can make a consumer run its handler again. What happens to
// another one is no excuse.
func (x *index) onConsumer(f cause, consumer string) bool {
	if slices.Contains(x.h.Run.Consumers, f.target) {
		return f.target == consumer
	}
	return f.about("redis")
}
