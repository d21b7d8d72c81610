package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/stats"
)

// limit makes a threshold of one (critical) or two (warning, critical) values.
func limit(values ...float64) Threshold {
	if len(values) == 1 {
		return Threshold{Critical: &values[0]}
	}
	return Threshold{Warning: &values[0], Critical: &values[1]}
}

// The verdict is the worst of the figures, and what is above its threshold is named.
func TestCheckJudges(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	calm := []string{"backlog 10", "oldest 1m0s", "dead 5", "at max attempts 3", "parked 0"}
	topic := func(name, state string, ago time.Duration) stats.TopicState {
		return stats.TopicState{Topic: name, State: state, Since: at.Add(-ago)}
	}
	for name, tc := range map[string]struct {
		params Params
		topics []stats.TopicState
		want   Level
		alarms []string
	}{
		"no thresholds":           {Params{}, nil, OK, nil},
		"at the threshold":        {Params{Backlog: limit(10)}, nil, OK, nil},
		"backlog above":           {Params{Backlog: limit(9)}, nil, Critical, []string{"backlog 10, above 9"}},
		"backlog above a warning": {Params{Backlog: limit(9, 10)}, nil, Warning, []string{"backlog 10, above 9"}},
		"age":                     {Params{Age: limit(30, 59)}, nil, Critical, []string{"oldest 1m0s, above 59s"}},
		"dead":                    {Params{Dead: limit(4)}, nil, Critical, []string{"dead 5, above 4"}},
		"attempts":                {Params{AttemptRows: limit(2, 4)}, nil, Warning, []string{"at max attempts 3, above 2"}},
		"the worst counts": {
			Params{Backlog: limit(1, 100), Dead: limit(0), Age: limit(1000)}, nil, Critical,
			[]string{"backlog 10, above 1", "dead 5, above 0"},
		},
		"no publisher": {Params{NeedPublisher: true}, nil, Critical, []string{"no publisher is alive"}},
		"broker away": {
			Params{Outage: limit(0, 300)}, []stats.TopicState{topic("domain", "unreachable", 42*time.Second)}, Warning,
			[]string{"topic domain has been unreachable for 42s, above 0s"},
		},
		"broker away for long": {
			Params{Outage: limit(0, 300)},
			[]stats.TopicState{topic("domain", "unreachable", 7*time.Minute), topic("billing", "misconfigured", time.Minute), topic("domain", "unreachable", time.Minute)},
			Critical,
			[]string{"topic billing has been misconfigured for 1m0s, above 0s", "topic domain has been unreachable for 7m0s, above 5m0s"},
		},
		"publisher's clock is ahead": {
			Params{Outage: limit(0, 300)}, []stats.TopicState{topic("domain", "unreachable", -time.Minute)}, Warning,
			[]string{"topic domain has been unreachable for 1s, above 0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.params.judge(&stats.Report{
				At: at, Backlog: 10, OldestAgeSeconds: 60, AtMaxAttempts: 3, DLQ: stats.DLQ{Open: 5}, Topics: tc.topics,
			})
			require.Equal(t, tc.want, got.Level)
			require.Equal(t, tc.alarms, got.Alarms)
			if tc.want == OK {
				require.Equal(t, calm, got.Remarks)
			}
			require.Len(t, got.Figures, 6)
		})
	}
}
