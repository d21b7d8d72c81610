package dispatch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// What publishers count is added up in a row per hour for each type, each topic and all, whoever counted it; what is released
// counts as nothing, and what was in before as nothing more.
func TestHistoryAddsUp(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	now := time.Date(2026, 3, 1, 12, 30, 20, 0, time.UTC)
	attempt := func(ago time.Duration, o dispatch.Outcome, before int) dispatch.Attempt {
		row := &dispatch.Claimed{EventType: "order_created", CreatedAt: now.Add(-ago), Since: now.Add(-ago), AttemptCount: before}
		return dispatch.Attempt{Row: row, Outcome: o, Err: errors.New("no")}
	}
	for range 2 { // two publishers
		h := &dispatch.History{DB: db.Pool, Now: func() time.Time { return now }, Observe: dispatch.Observers{}}
		h.Published("domain", 0, []dispatch.Attempt{
			attempt(time.Second, dispatch.OutcomePublished, 0), attempt(time.Second, dispatch.OutcomePublished, 0), attempt(2*time.Hour, dispatch.OutcomePublished, 3),
			attempt(time.Second, dispatch.OutcomeFailed, 0), attempt(time.Second, dispatch.OutcomeDead, 0), attempt(time.Second, dispatch.OutcomeReleased, 0),
			attempt(48*time.Hour, dispatch.OutcomeFailed, 0), attempt(31*24*time.Hour, dispatch.OutcomeFailed, 0),
		})
		h.Flush(t.Context())
		h.Flush(t.Context()) // adds nothing twice
	}
	rows, err := db.Pool.Query(t.Context(), `
SELECT format('%s %s/%s %s %s %s', to_char(at AT TIME ZONE 'UTC', 'DD HH24:MI'), topic, event_type, figures[1:4], (SELECT sum(n) FROM unnest(figures[5:]) AS n),
              ARRAY(SELECT format('%s:%s=%s', (i - 1) / 60, (i - 1) % 60, n) FROM unnest(minutes) WITH ORDINALITY AS m(n, i) WHERE n > 0 AND i <= 240))
  FROM outbox_history ORDER BY at, topic, event_type`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		"27 12:00 / {2}  {}", // emitted two days before: its hour alone
		"27 12:00 domain/ {2}  {}",
		"27 12:00 domain/order_created {2}  {}",
		"01 12:00 / {8,6,6,2} 6 {0:30=8,1:30=6,2:30=6,3:30=2}",
		"01 12:00 domain/ {8,6,6,2} 6 {0:30=8,1:30=6,2:30=6,3:30=2}",
		"01 12:00 domain/order_created {8,6,6,2} 6 {0:30=8,1:30=6,2:30=6,3:30=2}",
	}, got)
}

func TestLatencySteps(t *testing.T) {
	t.Parallel()
	require.Equal(t, 5*time.Millisecond, dispatch.LatencyEnd(0))
	require.Equal(t, 100*time.Millisecond, dispatch.LatencyEnd(4))
	require.Equal(t, 100_000*time.Second, dispatch.LatencyEnd(22))
}
