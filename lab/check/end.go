package check

import (
	"maps"
	"slices"
	"time"
)

// grace is what a run has to wait after its last fault and a lease, before its final state means
// anything.
const grace = 10 * time.Second

// settledAtTheEnd is I9.
func (c *checker) settledAtTheEnd(e *event) {
	for _, row := range e.rows {
		c.checked("I9")
		s := &row.State
		switch {
		case s.Lease.By != "":
			c.violate("I9", e.id, "is leased by %s (%s) at the end, until %s", s.Lease.By,
				c.owner[s.Lease.By], clock(s.Lease.Until))
		case s.Published.IsZero() && s.Dead.IsZero():
			c.violate("I9", e.id, "is pending at the end: %d attempts, next at %s, last error %q",
				s.Attempts, clock(s.Next), s.LastError)
		}
	}
}

// stats is I13.
func (c *checker) stats() {
	for _, s := range c.h.Stats {
		keys := map[string]int64{}
		maps.Copy(keys, s.Truth)
		maps.Copy(keys, s.Said)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			c.checked("I13")
			said, ok := s.Said[key]
			truth, counted := s.Truth[key]
			switch {
			case !ok:
				c.violate("I13", "", "stats does not say %s, which is %d", key, truth)
			case !counted:
				c.violate("I13", "", "stats says %s is %d, which was not counted", key, said)
			case said != truth:
				c.violate("I13", "", "stats says %s is %d, the tables say %d", key, said, truth)
			}
		}
	}
}

// resources is I14 for what a process holds.
func (c *checker) resources() {
	for _, r := range c.h.Resources {
		c.checked("I14")
		if r.Last > r.First+r.Slack {
			c.violate("I14", "", "%s grew from %d to %d, more than %d", r.Name, r.First, r.Last, r.Slack)
		}
	}
}

// processes is I14 for the processes themselves.
func (c *checker) processes() {
	type key struct {
		name string
		pid  int
	}
	running := map[key]int{}
	for _, p := range c.h.Processes {
		c.checked("I14")
		switch p.Event {
		case "started":
			running[key{p.Name, p.PID}]++
		case "exited":
			running[key{p.Name, p.PID}]--
			if p.Unexpected {
				c.violate("I14", "", "%s (pid %d) ended by itself at %s: %s", p.Name, p.PID, clock(p.At), p.Exit)
			}
		}
	}
	for _, p := range c.h.Processes {
		k := key{p.Name, p.PID}
		if p.Event == "started" && running[k] > 0 {
			running[k] = 0
			c.violate("I14", "", "%s (pid %d), started at %s, was never seen to end", p.Name, p.PID,
				clock(p.At))
		}
	}
}

// clock prints a time of the run as one compares it with logs.
func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("15:04:05.000")
}
