package check

import "slices"

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
