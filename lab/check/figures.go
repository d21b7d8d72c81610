package check

import (
	"maps"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

// Figures are what a run did, to be published beside its verdict.
type Figures struct {
	Seed     uint64        `json:"seed"`
	Rate     int           `json:"rate"`     // events per second asked for
	Duration time.Duration `json:"duration"` // from the start to the last fault
	// Events the producers meant to emit, by what the ledger says. Unknown are those of transactions
	// whose end was not seen; they are among the committed or the lost as well.
	Transactions map[string]int `json:"transactions"` // by how they were treated
	Committed    int            `json:"committed"`
	RolledBack   int            `json:"rolledBack"`
	Unknown      int            `json:"unknown"`
	Published    int            `json:"published"`
	Removed      int            `json:"removed"`

	Requests     int            `json:"requests"` // messages that reached the broker, stored or not
	Stored       int            `json:"stored"`
	Duplicates   int            `json:"duplicates"`
	DuplicatesBy map[string]int `json:"duplicatesBy,omitempty"`

	HandlerRuns map[string]int `json:"handlerRuns"`
	Effects     map[string]int `json:"effects"`
	DeadLetters map[string]int `json:"deadLetters"` // by state
	Reasons     map[string]int `json:"reasons"`     // of dead letters

	Faults       map[string]int `json:"faults"`
	FaultsFailed map[string]int `json:"faultsFailed,omitempty"`
	Crashes      map[string]int `json:"crashes"` // by failpoint
	Exits        map[string]int `json:"exits"`   // of processes, by how they ended
	Changes      map[string]int `json:"changes"` // of rows, by what they were
	Commands     map[string]int `json:"commands"`
	CommandsFail map[string]int `json:"commandsFailed,omitempty"` // by verb and exit code

	// Order is what happened to ordering keys.
	Order map[string]int `json:"order,omitempty"`

	// Waits from the end of the transaction to the first message.
	Wait      Wait          `json:"wait"`
	Recovery  time.Duration `json:"recovery"` // longest pause after the end of a fault until something was stored again
	Recovered string        `json:"recovered,omitempty"`
}

// Wait is how long events were under way.
type Wait struct {
	P50    time.Duration `json:"p50"`
	P99    time.Duration `json:"p99"`
	Max    time.Duration `json:"max"`
	MaxID  string        `json:"maxId,omitempty"`
	Events int           `json:"events"`
}

func (f *Figures) count(m *map[string]int, key string) {
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key]++
}

// order counts what happened to ordering keys.
func (f *Figures) order(name string, n int) {
	if f.Order == nil {
		f.Order = map[string]int{}
	}
	f.Order[name] += n
}

// injected is how many faults were done to the system.
func (f *Figures) injected() (n int) {
	for _, of := range f.Faults {
		n += of
	}
	return n
}

func (c *checker) figures() {
	f := &c.report.Figures
	f.Seed, f.Rate, f.Duration = c.h.Run.Seed, c.h.Run.Rate, c.h.Run.LastFault.Sub(c.h.Run.Started)
	for _, e := range c.events {
		f.event(e)
	}
	for i := range c.h.Transactions {
		f.count(&f.Transactions, c.h.Transactions[i].How)
	}
	f.Requests, f.Removed = len(c.h.Arrivals), len(c.h.Removed)
	for i := range c.h.Handled {
		f.count(&f.HandlerRuns, c.h.Handled[i].Consumer)
	}
	for i := range c.h.Letters {
		f.count(&f.DeadLetters, c.h.Letters[i].State)
		f.count(&f.Reasons, c.h.Letters[i].Reason)
	}
	for i := range c.h.Changes {
		f.count(&f.Changes, kindOf(&c.h.Changes[i]).String())
	}
	f.trouble(c.h)
	f.wait(c.events)
	f.recovery(c)
}

func (f *Figures) event(e *event) {
	if e.committed() {
		f.Committed++
	} else if e.intent != nil {
		f.RolledBack++
	}
	if e.tx != nil && e.tx.Outcome == history.Unknown {
		f.Unknown++
	}
	if row := e.row(); row != nil && !row.State.Published.IsZero() {
		f.Published++
	}
	f.Stored += len(e.stored)
	for _, effect := range e.effects {
		if f.Effects == nil {
			f.Effects = map[string]int{}
		}
		f.Effects[effect.Consumer] += effect.Count
	}
}

func (f *Figures) trouble(h *history.History) {
	for i := range h.Faults {
		if h.Faults[i].Failed == "" {
			f.count(&f.Faults, h.Faults[i].Kind)
		} else {
			f.count(&f.FaultsFailed, h.Faults[i].Kind)
		}
	}
	for i := range h.Processes {
		p := &h.Processes[i]
		if p.Event != "exited" {
			continue
		}
		f.count(&f.Exits, p.Exit)
		if p.Failpoint != "" && killed(p.Exit) {
			f.count(&f.Crashes, p.Failpoint)
		}
	}
	for i := range h.Commands {
		cmd := &h.Commands[i]
		f.count(&f.Commands, cmd.Verb)
		if cmd.Exit != 0 {
			f.count(&f.CommandsFail, exitName(cmd))
		}
		if cmd.Failpoint != "" && cmd.Exit == -1 {
			f.count(&f.Crashes, cmd.Failpoint)
		}
	}
}

func (f *Figures) wait(events []*event) {
	var waits []time.Duration
	for _, e := range events {
		if !e.committed() || len(e.stored) == 0 || e.tx == nil || e.tx.Ended.IsZero() {
			continue
		}
		// The message may overtake the producer, who learns of its commit later.
		wait := max(0, e.stored[0].At.Sub(e.tx.Ended))
		waits = append(waits, wait)
		if wait > f.Wait.Max {
			f.Wait.Max, f.Wait.MaxID = wait, e.id
		}
	}
	if len(waits) == 0 {
		return
	}
	slices.Sort(waits)
	f.Wait.P50, f.Wait.P99, f.Wait.Events = waits[len(waits)/2], waits[len(waits)*99/100], len(waits)
}

// recovery finds the fault after whose end it took longest until the broker stored something again.
// What the next fault holds up is not counted.
func (f *Figures) recovery(c *checker) {
	var stored []time.Time
	for i := range c.h.Arrivals {
		if c.h.Arrivals[i].Stored {
			stored = append(stored, c.h.Arrivals[i].At)
		}
	}
	slices.SortFunc(stored, time.Time.Compare)
	for _, cause := range c.causes {
		// What ends when the producers have stopped is followed by silence, not by recovery.
		if !c.onPublishing(cause) || !cause.to.Before(c.h.Run.LastFault) {
			continue
		}
		i, _ := slices.BinarySearchFunc(stored, cause.to, time.Time.Compare)
		if i == len(stored) || stored[i].Sub(cause.to) <= f.Recovery {
			continue
		}
		if !c.overlapped(cause.to, stored[i]) {
			f.Recovery, f.Recovered = stored[i].Sub(cause.to), cause.kind
		}
	}
}

// overlapped reports whether another fault was on in a span of time that begins with the end of
// one.
func (c *checker) overlapped(from, to time.Time) bool {
	for _, f := range c.causes {
		if c.onPublishing(f) && f.to.After(from) && f.from.Before(to) {
			return true
		}
	}
	return false
}

func keys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
