// Package score measures what docs/proof/scoreboard.md says: one scenario for each row, each in a
// world of its own with real servers and real processes, and a figure held against a target.
//
// A figure that misses its target is written down as short; it fails nothing, since the machine may
// be busy. An event lost, doubled without a cause, or deleted wrongly is another matter: that fails
// the run.
package score

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// Session runs scenarios.
type Session struct {
	// Program is outboxctl, built with the tag failpoints.
	Program string
	// Dir takes the servers' state and the processes' logs.
	Dir string
	// FakeTime is the path of libfaketime, which makes a database's clock wrong.
	FakeTime string
	// Full runs the sizes of the targets; without it those that take long are smaller, and say so.
	Full bool
	// Scale makes everything smaller still, for trying a scenario out.
	Scale float64
	// Keep leaves the folders of the worlds behind.
	Keep  bool
	Stamp Stamp
	Log   io.Writer

	worlds int
	// smaller: the present scenario is not of the target's size.
	smaller bool
}

type result struct {
	figure  string
	verdict Verdict
}

// judge writes a figure down. What is not correct is violated, whatever its speed.
func judge(correct, inTime bool, format string, args ...any) result {
	r := result{fmt.Sprintf(format, args...), Met}
	switch {
	case !correct:
		r.verdict = Violated
	case !inTime:
		r.verdict = Short
	}
	return r
}

// size is how many of something a scenario uses: by default, and for the target's own size.
func (s *Session) size(usual, full int) int {
	return scaled(s, 1, usual, full)
}

// lasts is the same for times.
func (s *Session) lasts(usual, full time.Duration) time.Duration {
	return scaled(s, 2*time.Second, usual, full)
}

func scaled[T int | time.Duration](s *Session, least, usual, full T) T {
	if s.Full {
		return full
	}
	v := max(least, T(float64(usual)*s.Scale))
	s.smaller = s.smaller || v < full
	return v
}

func (s *Session) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Log, format+"\n", args...)
}

// Run measures the named rows, or all that have a scenario, and hands each to put as soon as it is
// there. A scenario that could not be carried through is an error, and the others are run all the
// same; a figure, however bad, is none.
func (s *Session) Run(ctx context.Context, names []string, put func(Row) error) error {
	for _, name := range names {
		if i := slices.IndexFunc(entries(), func(e entry) bool { return e.name == name }); i < 0 || entries()[i].run == nil {
			return fmt.Errorf("no scenario for %q", name)
		}
	}
	var errs []error
	for _, e := range entries() {
		if e.run == nil || len(names) > 0 && !slices.Contains(names, e.name) {
			continue
		}
		began := time.Now()
		s.say("%s: %s", e.name, e.scenario)
		s.smaller = false
		var got result
		err := rig.Carry(func() { got = e.run(s, ctx) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.say("%s: %v", e.name, err)
			errs = append(errs, fmt.Errorf("%s: %w", e.name, err))
			continue
		}
		if got.verdict == Met && s.smaller {
			got.verdict = MetSmaller
		}
		s.say("%s: %s: %s (%s)", e.name, got.verdict, got.figure, time.Since(began).Round(time.Second))
		if err := put(s.Stamp.row(e, got.figure, got.verdict)); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// entry is a line of the scoreboard and how it is measured. Those without a scenario are measured
// by other tools.
type entry struct {
	name, scenario, target string
	run                    func(*Session, context.Context) result
}

func entries() []entry {
	return []entry{
		{"R1", "torture in CI: 300 events/s for 3 minutes, at least 40 faults of all kinds",
			"0 violations, run valid", nil},
		{"R2", "torture, long: an hour, ≥ 300 SIGKILL, 30 database restarts, 150 network faults",
			"0 violations, run valid", nil},
		{"R3", "simulation of the dispatcher, seeded",
			"0 violations; the same seed gives the same trace", (*Session).simulation},
		{"R4", "planted bugs", "all found", nil},
		{"R6", "1 of 3 publishers killed",
			"its rows out within lease + 2 s; duplicates ≤ its rows in flight", (*Session).killedPublisher},
		{"R8", "20 immediate database restarts", "publishing ≤ 3 s after it accepts; no process exits",
			(*Session).restarts},
		{"R11", "5 % of transactions commit 5 s late", "published ≤ one poll + 250 ms after commit",
			(*Session).lateCommits},
		{"R12", "xmin pinned for 180 s at 800 events/s", "claim p99 ≤ 3 ×, ≥ 95 % of the offered rate",
			(*Session).pinnedXmin},
		{"R13", "a million events", "each written once, claim index ≤ 1.5 ×", (*Session).manyEvents},
		{"R14", "1 % poison", "dead letters exact; the others' p99 + ≤ 250 ms", (*Session).poison},
		{"R15", "broker away for 10 minutes",
			"no dead letters, ≤ 5 requests/s, drained in ≤ 2 × the ideal time", (*Session).outage},
		{"R18", "replay of 1,000 dead letters by two operators at once", "each once",
			(*Session).twoOperators},
		{"R19", "100 SIGTERMs against a slow broker", "≤ 20 s, no lease left, no duplicate",
			(*Session).terms},
		{"R20", "migrate under 500 inserts/s with a reader open for 30 s, killed 5 times",
			"producer p99 < 1 s, no errors", (*Session).migration},
		{"R21", "cleanup of a million rows under load, killed 5 times",
			"no wrong delete, each transaction < 200 ms", (*Session).cleanup},
		{"R22", "200 events/s on defaults",
			"commit to acknowledgement p50 ≤ 10 ms with the hint, ≤ the poll without; p99 ≤ 50 ms", (*Session).steady},
		{"R23", "behind pgbouncer in transaction mode; REPEATABLE READ as default; clocks ± 10 minutes",
			"same results", (*Session).elsewhere},
		{"R25", "a dead event with 100,000 followers in its key beside others",
			"≥ 0.8 of the rate without, the others' p99 + ≤ 50 ms; none sent early; in order after the discard", (*Session).behindDeadHead},
		{"R26", "50,000 events of one ordering key", "≥ 2 MB/s, 0 out of order, 0 lost",
			(*Session).hotKey},
	}
}

// RowOf is a row that another tool has measured.
func (s Stamp) RowOf(name, figure string, verdict Verdict) (Row, error) {
	for _, e := range entries() {
		if e.name == name {
			return s.row(e, figure, verdict), nil
		}
	}
	return Row{}, fmt.Errorf("the scoreboard has no row %q", name)
}
