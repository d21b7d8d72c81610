package score_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/score"
)

func row(t *testing.T, name, figure string, verdict score.Verdict) score.Row {
	t.Helper()
	r, err := score.Stamp{Seed: 7, Commit: "abc", Machine: "2 cores"}.RowOf(name, figure, verdict)
	require.NoError(t, err)
	return r
}

func TestARunOfSomeRowsKeepsTheOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scoreboard.json")
	for _, r := range []score.Row{
		row(t, "R11", "slow", score.Short), row(t, "R6", "a | b", score.Met), row(t, "R11", "fast", score.Met), row(t, "R23", "-", score.NotRun),
	} {
		require.NoError(t, score.Record(path, r))
	}
	board, err := score.Load(path)
	require.NoError(t, err)
	var names, figures []string
	for _, r := range board.Rows {
		names, figures = append(names, r.Name), append(figures, r.Figure)
	}
	require.Equal(t, []string{"R6", "R11", "R23"}, names, "in the order of their numbers")
	require.Equal(t, []string{"a | b", "fast", "-"}, figures)

	page, err := os.ReadFile(filepath.Join(filepath.Dir(path), "scoreboard.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), `| a \| b | met |`, "a figure cannot break the table")
	require.Contains(t, string(page), "| not run |")
	require.Contains(t, string(page), "Measured on: 2 cores. ", "a machine is named once")
	require.NotContains(t, string(page), "slow")
}

func TestUnknownRowsAndBrokenBoardsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := score.Stamp{}.RowOf("R10", "", score.Met)
	require.ErrorContains(t, err, `no row "R10"`)
	path := filepath.Join(t.TempDir(), "scoreboard.json")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.Error(t, score.Record(path, row(t, "R6", "", score.Met)), "what cannot be read is not overwritten")
}

func TestATortureRunIsSmallerUntilItIsLongEnough(t *testing.T) {
	t.Parallel()
	long := check.Figures{
		Seed: 42, Rate: 300, Duration: time.Hour, Exits: map[string]int{"killed": 300},
		Faults: map[string]int{"postgres.restart": 30, "network.reset": 100, "network.cut": 50},
	}
	short := long
	short.Duration = 20 * time.Minute
	slow := short
	slow.Rate = 100
	for name, c := range map[string]struct {
		report check.Report
		row    string
		want   score.Verdict
	}{
		"an hour":              {check.Report{Valid: true, Figures: long}, "R2", score.Met},
		"too short":            {check.Report{Valid: true, Figures: short}, "R2", score.MetSmaller},
		"long enough for CI's": {check.Report{Valid: true, Figures: short}, "R1", score.Met},
		"too few events":       {check.Report{Valid: true, Figures: slow}, "R1", score.MetSmaller},
		"violated":             {check.Report{Valid: true, Figures: long, Violations: []check.Violation{{Invariant: "I1"}}}, "R2", score.Violated},
	} {
		got, err := score.Stamp{Seed: 1}.Torture(c.row, c.report)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got.Verdict, name)
		require.Equal(t, uint64(42), got.Seed, "the run's own")
	}
	_, err := score.Stamp{}.Torture("R2", check.Report{Invalid: []string{"too few faults"}})
	require.ErrorContains(t, err, "too few faults")
}

func TestASurvivingMutantViolates(t *testing.T) {
	t.Parallel()
	all, err := score.Stamp{}.Mutants(14, nil)
	require.NoError(t, err)
	require.Equal(t, score.Met, all.Verdict)
	one, err := score.Stamp{}.Mutants(14, []string{"last-id"})
	require.NoError(t, err)
	require.Equal(t, score.Violated, one.Verdict)
	require.Contains(t, one.Figure, "13 found; not found: last-id")
}
