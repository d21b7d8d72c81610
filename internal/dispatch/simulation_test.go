package dispatch

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// everydaySeeds are run by every go test; make simulate runs more.
const everydaySeeds = 25

// mistakeSeeds are how many may pass before a planted mistake is noticed: some
// need a rare coincidence.
const mistakeSeeds = 500

// simResult is one seed's outcome.
type simResult struct {
	trace      []string
	violations []string
	faults     map[fault]int
	// rows were emitted, stored counts messages at the broker, stale the
	// verdicts that came from a lost lease and were refused.
	rows, stored, duplicates, stale, letters int
}

func simulate(t *testing.T, seed uint64, bug memBug) (r simResult) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, bug)
		w.live()
		r = simResult{
			trace: w.trace, violations: w.audit.violations, faults: w.faults,
			rows: len(w.audit.order), stored: w.broker.stored, duplicates: w.audit.duplicates,
			stale: w.audit.stale, letters: len(w.table.letters),
		}
	})
	return r
}

// TestSimulation holds the dispatcher to its invariants under seeded faults.
// SIMULATE_SEED and SIMULATE_SEEDS choose other seeds than the everyday ones,
// SIMULATE_TRACE names a file for the last one's trace.
func TestSimulation(t *testing.T) {
	t.Parallel()
	first, n := envNumber(t, "SIMULATE_SEED", 1), envNumber(t, "SIMULATE_SEEDS", everydaySeeds)
	seeds := keptSeeds(t)
	for i := range n {
		seeds = append(seeds, first+i)
	}
	var sum simResult
	sum.faults = map[fault]int{}
	for _, seed := range seeds {
		r := simulate(t, seed, "")
		if len(r.violations) > 0 {
			t.Errorf("seed %d, to repeat: make simulate SEED=%d SEEDS=1 TRACE=trace.txt\n%s\nthe end of its trace:\n%s",
				seed, seed, strings.Join(r.violations, "\n"), strings.Join(tail(r.trace, 40), "\n"))
		}
		for f, n := range r.faults {
			sum.faults[f] += n
		}
		sum.rows, sum.stored, sum.duplicates = sum.rows+r.rows, sum.stored+r.stored, sum.duplicates+r.duplicates
		sum.stale, sum.letters, sum.trace = sum.stale+r.stale, sum.letters+r.letters, r.trace
	}
	if path := os.Getenv("SIMULATE_TRACE"); path != "" {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(sum.trace, "\n")+"\n"), 0o600))
	}
	t.Logf("seeds %d to %d, and %d kept ones", first, first+n-1, len(seeds)-int(n))
	report(t, sum)
	if n >= everydaySeeds {
		requireWorthwhile(t, sum)
	}
}

// requireWorthwhile fails a run that proves nothing: too little load, or a
// fault that never happened.
func requireWorthwhile(t *testing.T, sum simResult) {
	t.Helper()
	require.Greater(t, sum.stored, everydaySeeds*30, "messages stored")
	require.Positive(t, sum.duplicates)
	require.Positive(t, sum.stale)
	require.Positive(t, sum.letters)
	for _, f := range allFaults {
		require.Positive(t, sum.faults[f], "%s never happened", f)
	}
}

func report(t *testing.T, sum simResult) {
	t.Helper()
	t.Logf("%d rows, %d messages stored, %d of them duplicates, %d stale verdicts refused, %d dead letters",
		sum.rows, sum.stored, sum.duplicates, sum.stale, sum.letters)
	for _, f := range slices.Sorted(maps.Keys(sum.faults)) {
		t.Logf("%7d × %s", sum.faults[f], f)
	}
}

func TestSimulationGivesTheSameTraceForTheSameSeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		first, second := simulate(t, seed, ""), simulate(t, seed, "")
		require.Equal(t, first.trace, second.trace, "seed %d", seed)
	}
}

// Mistakes in the SQL are planted in the table; each must be noticed, and for
// what it is.
func TestSimulationNoticesMistakes(t *testing.T) {
	t.Parallel()
	for bug, invariant := range map[memBug]string{
		bugNoFence: "I10", bugNoReclaim: "I9", bugClientClock: "I", bugTwoStatements: "I7",
		bugDirtyRead: "I2", bugTakesLocked: "I12", bugNoLook: "I12", bugChargesAll: "I11", bugShrinksFirst: "I",
		bugNoPlace: "I5", bugDeadPasses: "I5", bugFilterProbe: "I5", bugHintProbe: "I5",
	} {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			// Runs are seldom cut by a row lock: the first seed that shows it is where its search begins.
			first := map[memBug]uint64{bugNoPlace: 361}[bug]
			for seed := first; seed < first+mistakeSeeds; seed++ {
				if r := simulate(t, seed, bug); len(r.violations) > 0 {
					t.Logf("seed %d: %s", seed, r.violations[0])
					require.Contains(t, r.violations[0], invariant)
					return
				}
			}
			require.Fail(t, "not noticed")
		})
	}
}

// keptSeeds are those that once showed something.
func keptSeeds(t *testing.T) (seeds []uint64) {
	t.Helper()
	text, err := os.ReadFile("testdata/simulation_seeds.txt")
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		number, _, _ := strings.Cut(lines.Text(), "#")
		if number = strings.TrimSpace(number); number != "" {
			seed, err := strconv.ParseUint(number, 10, 64)
			require.NoError(t, err)
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s=%q", name, text)
	return n
}

func tail(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
