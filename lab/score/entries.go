package score

import (
	"context"
	"fmt"
)

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
