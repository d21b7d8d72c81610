package check

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/lab/history"
)

// Violation is one broken promise.
type Violation struct {
	Invariant string `json:"invariant"`
	// EventID names the event where there is one. An event of emit --stdin that has no row is named by
	// its line.
	EventID string `json:"eventId,omitempty"`
	Text    string `json:"text"`
}

// Report is the verdict on a run.
type Report struct {
	// Valid: the run had the load, the faults and the records that it takes to prove anything.
	Valid bool `json:"valid"`
	// Invalid is what was missing.
	Invalid    []string    `json:"invalid,omitempty"`
	Violations []Violation `json:"violations,omitempty"`
	// Checked is how many things each invariant looked at: none broken of none is no proof.
	Checked map[string]int `json:"checked"`
	Figures Figures        `json:"figures"`
}

// invariants in the order they are reported in.
func invariants() []string {
	names := make([]string, 15)
	for i := range names {
		names[i] = fmt.Sprintf("I%d", i+1)
	}
	return names
}

type checker struct {
	*index
	report Report
}

// Check judges a recorded run.
func Check(h *history.History) Report {
	c := &checker{index: newIndex(h), report: Report{Checked: map[string]int{}}}
	for _, e := range c.events {
		c.transactionTruth(e)
		c.oneRow(e)
		c.stored(e)
		c.uncommitted(e)
		c.settledAtTheEnd(e)
		c.letters(e)
		c.content(e)
		c.effects(e)
		c.leases(e)
		c.attempts(e)
		c.duplicates(e)
		c.releases(e)
	}
	c.order()
	c.halfTransactions()
	c.owners()
	c.duplicateBound()
	c.stats()
	c.resources()
	c.processes()
	c.deletes()
	c.audits()
	c.commands()
	c.figures()
	c.validity()
	c.finish()
	return c.report
}

func (c *checker) violate(invariant, eventID, format string, args ...any) {
	c.report.Violations = append(c.report.Violations,
		Violation{invariant, eventID, fmt.Sprintf(format, args...)})
}

func (c *checker) invalid(format string, args ...any) {
	c.report.Invalid = append(c.report.Invalid, fmt.Sprintf(format, args...))
}

func (c *checker) checked(invariant string) { c.report.Checked[invariant]++ }

// finish groups the violations by invariant, each in the order they were found in.
func (c *checker) finish() {
	names := invariants()
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int {
		return slices.Index(names, a.Invariant) - slices.Index(names, b.Invariant)
	})
	c.report.Valid = len(c.report.Invalid) == 0
}

// isOperator reports whether a connection is an operator's, not a publisher's.
func isOperator(applicationName string) bool {
	return strings.HasPrefix(applicationName, "operator")
}

// File judges a run from its recording.
func File(path string) (Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = file.Close() }()
	h, err := history.Read(file)
	if err != nil {
		return Report{}, err
	}
	if h.Run.Ended.IsZero() {
		return Report{}, errors.New("the run did not come to its end")
	}
	return Check(h), nil
}

// validity returns what a run lacks to prove anything.
func (c *checker) validity() {
	run, f := &c.h.Run, &c.report.Figures
	if f.Committed < run.MinEvents {
		c.invalid("%d committed events, needed are %d", f.Committed, run.MinEvents)
	}
	if n := f.injected(); n < run.MinFaults {
		c.invalid("%d faults, needed are %d", n, run.MinFaults)
	}
	for _, kind := range run.NeedFaults {
		if f.Faults[kind] == 0 {
			c.invalid("no fault of kind %s", kind)
		}
	}
	for _, failpoint := range run.NeedCrashes {
		if f.Crashes[failpoint] == 0 {
			c.invalid("no process died in failpoint %s", failpoint)
		}
	}
	for _, what := range keys(run.MinOrder) {
		if n := f.Order[what]; n < run.MinOrder[what] {
			c.invalid("ordering keys: %d %s, needed are %d", n, what, run.MinOrder[what])
		}
	}
	if earliest := run.LastFault.Add(run.Lease + grace); run.Ended.Before(earliest) {
		c.invalid("the final state was read at %s, a lease and %s after the last fault is %s",
			clock(run.Ended), grace, clock(earliest))
	}
	if n := f.DuplicatesBy[byTimeout]; n > 0 {
		c.invalid("%d messages were sent again because a publisher gave up waiting without a fault: the machine was too slow", n)
	}
	gapped := slices.IndexFunc(c.events, func(e *event) bool { return e.gapped })
	if gapped >= 0 {
		c.invalid("changes of event %s are missing from the record", c.events[gapped].id)
	}
	if run.MinFaults == 0 {
		return // not a torture run: it shows what it shows
	}
	for _, invariant := range invariants() {
		if c.report.Checked[invariant] == 0 {
			c.invalid("nothing was recorded that could break %s", invariant)
		}
	}
}
