package check

import (
	"fmt"
	"strings"
	"time"
)

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
