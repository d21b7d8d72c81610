package operate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/stats"
)

func TestCheckJudges(t *testing.T) {
	t.Parallel()
	limit := func(values ...float64) Threshold {
		if len(values) == 1 {
			return Threshold{Critical: &values[0]}
		}
		return Threshold{Warning: &values[0], Critical: &values[1]}
	}
	report := stats.Report{Backlog: 10, OldestAgeSeconds: 60, AtMaxAttempts: 3, DLQ: stats.DLQ{Open: 5}}
	for name, tc := range map[string]struct {
		params CheckParams
		want   Level
	}{
		"no thresholds":           {CheckParams{}, LevelOK},
		"at the threshold":        {CheckParams{Backlog: limit(10)}, LevelOK},
		"backlog above":           {CheckParams{Backlog: limit(9)}, LevelCritical},
		"backlog above a warning": {CheckParams{Backlog: limit(9, 10)}, LevelWarning},
		"age":                     {CheckParams{Age: limit(59.5)}, LevelCritical},
		"dead":                    {CheckParams{Dead: limit(4)}, LevelCritical},
		"attempts":                {CheckParams{AttemptRows: limit(2, 4)}, LevelWarning},
		"the worst counts":        {CheckParams{Backlog: limit(1, 100), Dead: limit(0), Age: limit(1000)}, LevelCritical},
		"no publisher":            {CheckParams{NeedPublisher: true}, LevelCritical},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.params.judge(&report).Level)
		})
	}
}
