package stats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// A publisher's metrics and outboxctl stats count by the same rules: a discarded dead letter raises no alarm.
func TestASampleIsAPartOfTheReport(t *testing.T) {
	t.Parallel()
	pool := build(t)
	for _, change := range []string{"", `UPDATE outbox_dlq SET state = 'discarded', state_changed_at = now() WHERE event_id IN (
		SELECT id FROM outbox_events WHERE dead_at IS NOT NULL ORDER BY id LIMIT 2)`} {
		_, err := pool.Exec(t.Context(), change)
		require.NoError(t, err)
		want := collect(t, pool, "")
		got, err := stats.TakeSample(t.Context(), pool, maxAttempts)
		require.NoError(t, err)
		require.Equal(t, want.Backlog, got.Backlog)
		require.Equal(t, want.AtMaxAttempts, got.AtMaxAttempts)
		require.Equal(t, want.DLQ.ByReason, got.DLQOpen)
		require.InDelta(t, want.OldestAgeSeconds, got.OldestAgeSeconds, 60)
	}
	empty, err := stats.TakeSample(t.Context(), outboxtest.DB(t).Pool, maxAttempts)
	require.NoError(t, err)
	require.Equal(t, stats.Sample{DLQOpen: map[string]int64{}, Consumers: []stats.Consumer{}}, empty)
}

// Compiling what walks over a backlog takes longer than the walk.
func TestASampleIsNotCompiled(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `CREATE OR REPLACE FUNCTION outbox_claimable(most bigint DEFAULT 10000) RETURNS bigint LANGUAGE sql
		AS $$SELECT CASE current_setting('jit') WHEN 'off' THEN 7 ELSE 0 END$$`)
	require.NoError(t, err)
	sample, err := stats.TakeSample(t.Context(), pool, maxAttempts)
	require.NoError(t, err)
	require.EqualValues(t, 7, sample.Claimable)
}
