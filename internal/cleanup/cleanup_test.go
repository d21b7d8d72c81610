package cleanup_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cleanup"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

const day = 24 * time.Hour

func ptr[T any](v T) *T { return &v }

// fill writes n events of one kind: published (that long ago), pending or dead.
func fill(t *testing.T, pool *pgxpool.Pool, n int, state string, age time.Duration) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at, dead_at)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', now() - $3::interval,
       CASE WHEN $2 = 'published' THEN now() - $3::interval END,
       CASE WHEN $2 = 'dead' THEN now() - $3::interval END
  FROM generate_series(1, $1)`, n, state, age)
	require.NoError(t, err)
}

func count(t *testing.T, pool *pgxpool.Pool, where string) int {
	t.Helper()
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+where).Scan(&n))
	return n
}

func TestOnlyOldPublishedEventsGo(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 2500, "published", 31*day)
	fill(t, pool, 7, "published", 29*day)
	fill(t, pool, 5, "pending", 90*day)
	fill(t, pool, 3, "dead", 90*day)

	cleaner := cleanup.New(pool)
	params := cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester", Reason: "retention"}
	plan, err := cleaner.Plan(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, cleanup.Plan{Events: []cleanup.TypeCount{{EventType: "order_canceled", Count: 2500}}, DLQ: []cleanup.TypeCount{}, Inbox: []cleanup.ConsumerCount{}}, plan)
	require.Equal(t, 2515, count(t, pool, "outbox_events"), "a plan removes nothing")

	result, err := cleaner.Run(t.Context(), params)
	require.NoError(t, err)
	require.EqualValues(t, 2500, result.Events)
	require.Equal(t, 7, count(t, pool, "outbox_events WHERE published_at IS NOT NULL"))
	require.Equal(t, 5, count(t, pool, "outbox_events WHERE published_at IS NULL AND dead_at IS NULL"))
	require.Equal(t, 3, count(t, pool, "outbox_events WHERE dead_at IS NOT NULL"))

	var affected, runs int
	err = pool.QueryRow(t.Context(), `SELECT sum(affected), count(DISTINCT detail ->> 'runId')
  FROM outbox_audit WHERE actor = 'tester' AND action = 'cleanup_events' AND reason = 'retention'`).Scan(&affected, &runs)
	require.NoError(t, err)
	require.Equal(t, 2500, affected)
	require.Equal(t, 1, runs)

	result, err = cleaner.Run(t.Context(), params)
	require.NoError(t, err)
	require.Zero(t, result.Events)
	require.Equal(t, 0, count(t, pool, "outbox_audit WHERE affected = 0"), "a run without work leaves no audit row")
}

func TestMaxRowsEndsARun(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 50, "published", 31*day)
	result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: ptr(30 * day), MaxRows: 20, Actor: "tester"})
	require.NoError(t, err)
	require.EqualValues(t, 20, result.Events)
	require.Equal(t, 30, count(t, pool, "outbox_events"))
}

// bury makes a dead event with a dead letter in the given state.
func bury(t *testing.T, pool *pgxpool.Pool, state string, age time.Duration) (eventID string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `
WITH event AS (
    INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dead_at)
    VALUES (gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), '{}', now()) RETURNING *
), letter AS (
    INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message,
                            attempt_count, state, state_changed_at)
    SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'invalid_payload', 'x', 0, $1,
           CASE WHEN $1 <> 'open' THEN now() - $2::interval END
      FROM event
)
SELECT id FROM event`, state, age).Scan(&eventID)
	require.NoError(t, err)
	return eventID
}

func TestHandledDeadLettersGo(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	bury(t, pool, "open", 0)
	discarded := bury(t, pool, "discarded", 91*day)
	bury(t, pool, "discarded", 89*day)
	bury(t, pool, "replayed", 91*day)

	result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{DLQOlderThan: ptr(90 * day), Actor: "tester"})
	require.NoError(t, err)
	require.EqualValues(t, 2, result.DLQ)
	require.EqualValues(t, 1, result.DeadEvents)
	require.Equal(t, 0, count(t, pool, "outbox_events WHERE id = '"+discarded+"'"), "a discarded event goes with its dead letter")
	require.Equal(t, 3, count(t, pool, "outbox_events"))
	require.Equal(t, 1, count(t, pool, "outbox_dlq WHERE state = 'open'"))
}

func TestADeathThatIsStillOpenKeepsItsEvent(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	event := bury(t, pool, "discarded", 91*day)
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'x', 10 FROM outbox_events WHERE id = $1`, event)
	require.NoError(t, err)
	result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{DLQOlderThan: ptr(90 * day), Actor: "tester"})
	require.NoError(t, err)
	require.EqualValues(t, 1, result.DLQ)
	require.Zero(t, result.DeadEvents)
	require.Equal(t, 1, count(t, pool, "outbox_events"))
}

func TestOneCleanerAtATime(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 10, "published", 31*day)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	var busy bool
	err = tx.QueryRow(t.Context(), `SELECT busy FROM outbox_cleanup_events(now(), NULL, 1, 'other', NULL, '{}')`).Scan(&busy)
	require.NoError(t, err)
	require.False(t, busy)

	_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester"})
	require.ErrorIs(t, err, cleanup.ErrBusy)
	require.Equal(t, 10, count(t, pool, "outbox_events"))
}

// A row somebody is working on (a republish, say) is left for the next run instead of waited for.
func TestLockedRowsAreSkipped(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 3, "published", 31*day)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), `SELECT id FROM outbox_events LIMIT 1 FOR UPDATE`)
	require.NoError(t, err)
	result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester"})
	require.NoError(t, err)
	require.EqualValues(t, 2, result.Events)
}

// remember writes n inbox rows of a consumer, each a second older than the one before.
func remember(t *testing.T, pool *pgxpool.Pool, n int, consumer string, age time.Duration) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
INSERT INTO inbox_events (consumer, event_id, processed_at)
SELECT $2, gen_random_uuid(), now() - $3::interval - i * interval '1 second' FROM generate_series(1, $1) AS i`, n, consumer, age)
	require.NoError(t, err)
}

func TestOnlyOldInboxRowsGo(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	remember(t, pool, 2400, "billing", 60*day)
	remember(t, pool, 100, "compliance", 60*day)
	remember(t, pool, 7, "billing", 59*day)
	fill(t, pool, 5, "published", 90*day)

	cleaner := cleanup.New(pool)
	params := cleanup.Params{InboxOlderThan: ptr(60 * day), Actor: "tester", Reason: "retention"}
	plan, err := cleaner.Plan(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, []cleanup.ConsumerCount{{Consumer: "billing", Count: 2400}, {Consumer: "compliance", Count: 100}}, plan.Inbox)
	require.Equal(t, 2507, count(t, pool, "inbox_events"), "a plan removes nothing")

	result, err := cleaner.Run(t.Context(), params)
	require.NoError(t, err)
	require.EqualValues(t, 2500, result.Inbox)
	require.EqualValues(t, 2500, result.Rows())
	require.Greater(t, result.Batches, 1)
	require.Equal(t, 7, count(t, pool, "inbox_events"))
	require.Equal(t, 5, count(t, pool, "outbox_events"), "events are not asked for")
	var affected int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT sum(affected) FROM outbox_audit
 WHERE actor = 'tester' AND action = 'cleanup_inbox' AND reason = 'retention' AND detail ? 'olderThan' AND detail ? 'runId'`).Scan(&affected))
	require.Equal(t, 2500, affected)
}

func TestMaxRowsBoundsTheWholeRun(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 10, "published", 90*day)
	bury(t, pool, "discarded", 91*day)
	remember(t, pool, 50, "compliance", 60*day)
	result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{
		OlderThan: ptr(30 * day), DLQOlderThan: ptr(90 * day), InboxOlderThan: ptr(60 * day), MaxRows: 31, Actor: "tester",
	})
	require.NoError(t, err)
	require.EqualValues(t, 10, result.Events)
	require.EqualValues(t, 1, result.DLQ)
	require.EqualValues(t, 20, result.Inbox)
}

func TestOneCleanerOfTheInboxAtATime(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	remember(t, pool, 10, "compliance", 60*day)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	var busy bool
	err = tx.QueryRow(t.Context(), `SELECT busy FROM outbox_cleanup_events(now(), NULL, 1, 'other', NULL, '{}')`).Scan(&busy)
	require.NoError(t, err)
	require.False(t, busy)
	_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{InboxOlderThan: ptr(30 * day), Actor: "tester"})
	require.ErrorIs(t, err, cleanup.ErrBusy)
	require.Equal(t, 10, count(t, pool, "inbox_events"))
}

// What counts is when an event was published, not when it was emitted: one that waited for weeks is new to its consumers.
func TestAgeCountsFromPublication(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at)
VALUES (gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', now() - interval '90 days', now() - interval '1 day')`)
	require.NoError(t, err)
	result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester"})
	require.NoError(t, err)
	require.Zero(t, result.Events)
	require.Equal(t, 1, count(t, pool, "outbox_events"))
}
