package dispatch

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An outage began when the topic was last healthy, however often a trial fails in between.
func TestAnOutageKeepsItsBeginning(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	b := newBreaker("domain", nil)
	require.True(t, b.trip(b.begin(), began, 0, errors.New("away")))
	for i, state := range []TopicState{TopicRecovering, TopicUnreachable, TopicMisconfigured, TopicRecovering} {
		status := b.move(state, began.Add(time.Duration(i+1)*time.Minute), nil)
		require.Equal(t, state, status.State)
		require.Equal(t, began, status.Since)
	}
	ended := began.Add(time.Hour)
	require.Equal(t, ended, b.move(TopicHealthy, ended, nil).Since)
}
