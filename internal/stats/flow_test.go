package stats_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cleanup"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// insert writes events: how many, how long ago they were made, published and died.
const insert = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at, dead_at, attempt_count)
SELECT gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), '{}', now() - $2::interval, now() - $3::interval, now() - $4::interval, 10
  FROM generate_series(1, $1)`

func TestFlow(t *testing.T) {
	t.Parallel()
	second := func(n int) *time.Duration { d := time.Duration(n) * time.Second; return &d }
	type events struct {
		count                    int
		made, published, deadAge *time.Duration
	}
	for name, tc := range map[string]struct {
		events []events
		want   string
		eta    bool
	}{
		"nothing waits": {nil, stats.FlowDrained, true},
		// In the future, so that they stay new however long the test takes.
		"just arrived":                       {[]events{{count: 3, made: second(-60)}}, stats.FlowKeepingUp, false},
		"waits and nothing moves":            {[]events{{count: 3, made: second(90)}}, stats.FlowNotShrinking, false},
		"more published than made":           {[]events{{count: 1, made: second(90)}, {count: 9, made: second(90), published: second(5)}}, stats.FlowShrinking, true},
		"more dead than made":                {[]events{{count: 1, made: second(90)}, {count: 9, made: second(90), deadAge: second(5)}}, stats.FlowShrinking, true},
		"what is made dies, nothing shrinks": {[]events{{count: 1, made: second(90)}, {count: 9, made: second(20), deadAge: second(5)}}, stats.FlowNotShrinking, false},
		"dead for long":                      {[]events{{count: 1, made: second(90)}, {count: 9, made: second(90), deadAge: second(80)}}, stats.FlowNotShrinking, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.DB(t).Pool
			for _, e := range tc.events {
				_, err := pool.Exec(t.Context(), insert, e.count, e.made, e.published, e.deadAge)
				require.NoError(t, err)
			}
			flow := collect(t, pool, "").Flow
			require.Equal(t, tc.want, flow.State)
			require.Equal(t, tc.eta, flow.ETASeconds != nil)
		})
	}
}

// A dead letter that an operator has discarded asks for nothing any more; its event stays dead until cleanup.
func TestDiscardedDeadLettersAreNotAtMaxAttempts(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), insert, 3, time.Minute, nil, time.Second)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, state)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'x', 10, CASE row_number() OVER () WHEN 1 THEN 'open' ELSE 'discarded' END
  FROM outbox_events`)
	require.NoError(t, err)
	r := collect(t, pool, "")
	require.EqualValues(t, 1, r.AtMaxAttempts)
	require.EqualValues(t, 3, r.Dead)
}

// After a cleanup of events published lately the report tells from when on it can count.
func TestWhatCleanupRemovedIsNotCalledUnpublished(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), insert, 5, time.Hour, 2*time.Minute, nil)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), insert, 1, 40*24*time.Hour, 35*24*time.Hour, nil)
	require.NoError(t, err)
	clean := func(age time.Duration) {
		result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: &age, Actor: "test"})
		require.NoError(t, err)
		require.NotZero(t, result.Events)
	}
	clean(30 * 24 * time.Hour)
	r := collect(t, pool, "")
	require.Equal(t, stats.Published{Last5m: 5, Last1h: 5}, r.Published, "a month ago is in no figure")

	clean(time.Minute)
	r = collect(t, pool, "")
	require.Zero(t, r.Published.Last1h)
	require.NotNil(t, r.Published.CountedSince)
	require.True(t, r.Published.CountedSince.Before(r.At.Add(-time.Minute)), "%v", r.Published)
}

// A role that may not read the audit still gets the figures.
func TestFiguresWithoutTheAudit(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	role := pgx.Identifier{"figures_" + uuid.NewString()}.Sanitize()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, sql := range []string{
		"CREATE ROLE " + role,
		"GRANT SELECT ON ALL TABLES IN SCHEMA public TO " + role,
		"REVOKE ALL ON outbox_audit FROM " + role,
		"SET ROLE " + role,
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	_, err = stats.Collect(t.Context(), conn, registry.New(), stats.Params{MaxAttempts: maxAttempts})
	require.NoError(t, err)
	for _, sql := range []string{"RESET ROLE", "DROP OWNED BY " + role, "DROP ROLE " + role} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
}
