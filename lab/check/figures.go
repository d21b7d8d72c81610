package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

func add(m *map[string]int, what string, n int) {
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[what] += n
}

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
	for _, tx := range c.h.Transactions {
		add(&f.Transactions, tx.How, 1)
	}
	f.Requests, f.Removed = len(c.h.Arrivals), len(c.h.Removed)
	for _, h := range c.h.Handled {
		add(&f.HandlerRuns, h.Consumer, 1)
	}
	for _, l := range c.h.Letters {
		add(&f.DeadLetters, l.State, 1)
		add(&f.Reasons, l.Reason, 1)
	}
	for _, ch := range c.h.Changes {
		add(&f.Changes, kindOf(&ch).String(), 1)
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
		add(&f.Effects, effect.Consumer, effect.Count)
	}
}

func (f *Figures) trouble(h *history.History) {
	for _, fault := range h.Faults {
		kinds := &f.Faults
		if fault.Failed != "" {
			kinds = &f.FaultsFailed
		}
		add(kinds, fault.Kind, 1)
	}
	for _, p := range h.Processes {
		if p.Event != "exited" {
			continue
		}
		add(&f.Exits, p.Exit, 1)
		if p.Failpoint != "" && p.Exit == "killed" {
			add(&f.Crashes, p.Failpoint, 1)
		}
	}
	for _, cmd := range h.Commands {
		add(&f.Commands, cmd.Verb, 1)
		if cmd.Exit != 0 {
			add(&f.CommandsFail, fmt.Sprintf("%s (exit %d)", cmd.Verb, cmd.Exit), 1)
		}
		if cmd.Failpoint != "" && cmd.Exit == -1 {
			add(&f.Crashes, cmd.Failpoint, 1)
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
	for _, a := range c.h.Arrivals {
		if a.Stored {
			stored = append(stored, a.At)
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
	return slices.ContainsFunc(c.causes, func(f cause) bool {
		return c.onPublishing(f) && f.to.After(from) && f.from.Before(to)
	})
}

func keys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }

// shown is how many violations of one invariant are printed: the first ones tell what is wrong, the
// count how badly.
const shown = 10

// String is the report for a person: verdict, what broke, figures.
func (r Report) String() string {
	var b strings.Builder
	switch {
	case !r.Valid:
		fmt.Fprintf(&b, "INVALID: the run proves nothing\n")
	case len(r.Violations) > 0:
		fmt.Fprintf(&b, "FAILED: %s\n", violations(len(r.Violations)))
	default:
		fmt.Fprintf(&b, "PASSED: 0 violations\n")
	}
	for _, why := range r.Invalid {
		fmt.Fprintf(&b, "  invalid: %s\n", why)
	}
	by := map[string][]Violation{}
	for _, v := range r.Violations {
		by[v.Invariant] = append(by[v.Invariant], v)
	}
	for _, name := range invariants() {
		r.invariant(&b, name, by[name])
	}
	r.Figures.print(&b)
	return b.String()
}

func (r Report) invariant(b *strings.Builder, name string, broken []Violation) {
	fmt.Fprintf(b, "%-4s %s, %d checked\n", name, violations(len(broken)), r.Checked[name])
	for i, v := range broken {
		if i == shown {
			fmt.Fprintf(b, "     … and %d more\n", len(broken)-shown)
			return
		}
		if v.EventID != "" {
			fmt.Fprintf(b, "     %s %s\n", v.EventID, v.Text)
		} else {
			fmt.Fprintf(b, "     %s\n", v.Text)
		}
	}
}

func (f *Figures) print(b *strings.Builder) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-16s "+format+"\n", append([]any{name}, args...)...)
	}
	list := func(name string, m map[string]int) {
		if len(m) > 0 {
			line(name, "%s", counts(m))
		}
	}
	line("run", "seed %d, %s", f.Seed, f.Duration.Round(time.Second))
	line("events", "%d committed, %d rolled back, %d of unknown outcome", f.Committed, f.RolledBack, f.Unknown)
	list("transactions", f.Transactions)
	line("published", "%d, of them %d removed by cleanup", f.Published, f.Removed)
	line("messages", "%d sent, %d stored, %d duplicates", f.Requests, f.Stored, f.Duplicates)
	list("duplicates by", f.DuplicatesBy)
	list("handler runs", f.HandlerRuns)
	list("effects", f.Effects)
	list("dead letters", f.DeadLetters)
	list("died of", f.Reasons)
	list("ordering keys", f.Order)
	line("faults", "%d: %s", f.injected(), counts(f.Faults))
	list("faults failed", f.FaultsFailed)
	list("crashes in", f.Crashes)
	list("exits", f.Exits)
	list("changes", f.Changes)
	list("commands", f.Commands)
	list("commands failed", f.CommandsFail)
	line("wait", "p50 %s, p99 %s, longest %s (%s)", short(f.Wait.P50), short(f.Wait.P99),
		short(f.Wait.Max), f.Wait.MaxID)
	line("recovery", "longest %s, after %s", short(f.Recovery), f.Recovered)
}

func counts(m map[string]int) string {
	parts := make([]string, 0, len(m))
	for _, key := range keys(m) {
		parts = append(parts, fmt.Sprintf("%s %d", key, m[key]))
	}
	return strings.Join(parts, ", ")
}

func violations(n int) string {
	if n == 1 {
		return "1 violation"
	}
	return fmt.Sprintf("%d violations", n)
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
