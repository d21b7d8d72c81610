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
	params := cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester", Note: "retention"}
	plan, err := cleaner.Plan(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, cleanup.Plan{Events: []cleanup.Count{{EventType: new("order_canceled"), Count: 2500}}, DLQ: []cleanup.Count{}, Inbox: []cleanup.Count{}, Failures: []cleanup.Count{}, Audit: []cleanup.Count{}}, plan)
	require.Equal(t, 2515, count(t, pool, "outbox_events"), "a plan removes nothing")

	result, err := cleaner.Run(t.Context(), params)
	require.NoError(t, err)
	require.EqualValues(t, 2500, result.Events)
	require.Equal(t, 7, count(t, pool, "outbox_events WHERE published_at IS NOT NULL"))
	require.Equal(t, 5, count(t, pool, "outbox_events WHERE published_at IS NULL AND dead_at IS NULL"))
	require.Equal(t, 3, count(t, pool, "outbox_events WHERE dead_at IS NOT NULL"))

	result, err = cleaner.Run(t.Context(), params)
	require.NoError(t, err)
	require.Zero(t, result.Events)
	require.Equal(t, 1, count(t, pool, "outbox_audit"), "a run without work leaves no audit row")
}

// Minutes of the history go after a day, hours after 30, with any cleanup.
func TestOldHistoryGoes(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `INSERT INTO outbox_history (at, topic, event_type, figures, minutes)
SELECT now() - v.age, 'domain', n::text, '{1}', '{1}' FROM generate_series(1, 6000) AS n, (VALUES (interval '25 hours'), (interval '27 hours'), (interval '29 days'), (interval '31 days')) AS v(age)`)
	require.NoError(t, err)
	_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester"})
	require.NoError(t, err)
	require.Equal(t, 18000, count(t, pool, "outbox_history"))
	require.Equal(t, 18000, count(t, pool, "outbox_history WHERE at > now() - interval '30 days'"))
	require.Equal(t, 6000, count(t, pool, "outbox_history WHERE minutes IS NOT NULL"))
	require.Equal(t, 6000, count(t, pool, "outbox_history WHERE minutes IS NOT NULL AND at > now() - interval '26 hours'"))
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

// deadLetter makes a dead event with a dead letter in the given state.
func deadLetter(t *testing.T, pool *pgxpool.Pool, state string, age time.Duration) (eventID string) {
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
	deadLetter(t, pool, "open", 0)
	discarded := deadLetter(t, pool, "discarded", 91*day)
	deadLetter(t, pool, "discarded", 89*day)
	deadLetter(t, pool, "replayed", 91*day)

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
	event := deadLetter(t, pool, "discarded", 91*day)
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
	err = tx.QueryRow(t.Context(), `SELECT busy FROM outbox_cleanup('events', now(), NULL, 1, 'other', NULL, '{}', NULL)`).Scan(&busy)
	require.NoError(t, err)
	require.False(t, busy)

	_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester"})
	require.ErrorIs(t, err, cleanup.ErrBusy)
	require.Equal(t, 10, count(t, pool, "outbox_events"))
}

// A locked row (a republish, say) is left for the next run instead of waited for.
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
	params := cleanup.Params{InboxOlderThan: ptr(60 * day), Actor: "tester", Note: "retention"}
	plan, err := cleaner.Plan(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, []cleanup.Count{{Consumer: new("billing"), Count: 2400}, {Consumer: new("compliance"), Count: 100}}, plan.Inbox)
	require.Equal(t, 2507, count(t, pool, "inbox_events"), "a plan removes nothing")

	result, err := cleaner.Run(t.Context(), params)
	require.NoError(t, err)
	require.EqualValues(t, 2500, result.Inbox)
	require.EqualValues(t, 2500, result.Rows())
	require.Greater(t, result.Batches, 1)
	require.Equal(t, 7, count(t, pool, "inbox_events"))
	require.Equal(t, 5, count(t, pool, "outbox_events"), "events are not asked for")
}

// What a consumer failed on goes when it is old and its event is gone. One that still fails, or could be tried again, stays.
func TestFailuresOfEventsThatAreGoneGo(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 1, "published", 31*day)
	fill(t, pool, 1, "published", day)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO outbox_consumer_failures (consumer, event_id, event_type, namespace, subscription, state, attempts, last_error, last_at)
		SELECT f.consumer, coalesce(e.id, gen_random_uuid()), 't', 'n', 's', 'gave_up', 1, 'e', now() - f.age
		  FROM (VALUES ('gone', interval '31 days', NULL::interval), ('goes', '31 days', '31 days'), ('new', '1 day', NULL), ('kept', '31 days', '1 day')) AS f(consumer, age, event)
		  LEFT JOIN outbox_events AS e ON e.published_at BETWEEN now() - f.event - interval '1 h' AND now() - f.event + interval '1 h'`)
	require.NoError(t, err)
	p := cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester"}
	plan, err := cleanup.New(pool).Plan(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, []cleanup.Count{{Consumer: new("goes"), Count: 1}, {Consumer: new("gone"), Count: 1}}, plan.Failures)
	result, err := cleanup.New(pool).Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, [2]int64{1, 2}, [2]int64{result.Events, result.Failures})
	require.Equal(t, plan.Rows(), result.Rows())
	var left string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT string_agg(consumer, ' ' ORDER BY consumer) FROM outbox_consumer_failures`).Scan(&left))
	require.Equal(t, "kept new", left)
	require.Equal(t, int64(3), audits(t, pool)[0].Affected)
}

func TestMaxRowsBoundsTheWholeRun(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 10, "published", 90*day)
	deadLetter(t, pool, "discarded", 91*day)
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
	err = tx.QueryRow(t.Context(), `SELECT busy FROM outbox_cleanup('events', now(), NULL, 1, 'other', NULL, '{}', NULL)`).Scan(&busy)
	require.NoError(t, err)
	require.False(t, busy)
	_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{InboxOlderThan: ptr(30 * day), Actor: "tester"})
	require.ErrorIs(t, err, cleanup.ErrBusy)
	require.Equal(t, 10, count(t, pool, "inbox_events"))
}

// Any login of the database can hold a lock of this name, so the refusal names who does.
func TestWhoKeepsACleanerOutIsNamed(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"outbox_cleanup", "outbox_cleanup_run"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.DB(t).Pool
			remember(t, pool, 1, "compliance", 60*day)
			stranger, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, stranger.Rollback(context.WithoutCancel(t.Context()))) }()
			_, err = stranger.Exec(t.Context(), `SELECT set_config('application_name', 'stranger', true), pg_advisory_xact_lock(hashtextextended($1, 0))`, key)
			require.NoError(t, err)
			_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{InboxOlderThan: ptr(30 * day), Actor: "tester"})
			require.ErrorIs(t, err, cleanup.ErrBusy)
			require.Regexp(t, `another cleanup is running: process \d+, application stranger, user \w+, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ$`, err.Error())
		})
	}
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

// holder is the backend that has the turn to clean in this database.
const holder = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'
   AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)`

// A cleaner that rests still has its turn, and holds up no vacuum meanwhile.
func TestASecondCleanerDoesNotWorkInThePauses(t *testing.T) {
	t.Parallel()
	// The server's patience must not end the turn, and one connection for the batches has to do.
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `ALTER DATABASE `+db.Name+` SET idle_in_transaction_session_timeout = '1s'`)
	require.NoError(t, err)
	fill(t, db.Pool, 2500, "published", 31*day)
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()

	params := cleanup.Params{OlderThan: ptr(30 * day), Actor: "first", Pause: time.Hour}
	batch := make(chan cleanup.Batch, 1)
	params.OnBatch = func(b cleanup.Batch) { batch <- b }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { _, err := cleanup.New(pool).Run(ctx, params); ended <- err }()
	select {
	case b := <-batch:
		require.EqualValues(t, 1000, b.Deleted)
	case err := <-ended:
		require.FailNow(t, "the first cleaner did not clean", "%v", err)
	}
	_, err = db.Pool.Exec(t.Context(), `SELECT pg_sleep(1.5)`)
	require.NoError(t, err)

	second := cleanup.Params{OlderThan: ptr(30 * day), Actor: "second"}
	result, err := cleanup.New(db.Pool).Run(t.Context(), second)
	require.ErrorIs(t, err, cleanup.ErrBusy)
	require.Zero(t, result.Rows())
	require.Equal(t, 1500, count(t, db.Pool, "outbox_events"))
	require.Equal(t, 1, count(t, db.Pool, "("+holder+" AND backend_xmin IS NULL AND backend_xid IS NULL) AS quiet"))

	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	result, err = cleanup.New(db.Pool).Run(t.Context(), second)
	require.NoError(t, err, "the turn is given back")
	require.EqualValues(t, 1500, result.Events)
}

// Without the lock another cleaner may be at work, so the run ends.
func TestALostTurnEndsTheRun(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 2500, "published", 31*day)
	params := cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester", OnBatch: func(cleanup.Batch) {
		_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM (`+holder+`) AS h`)
		require.NoError(t, err)
	}}
	result, err := cleanup.New(pool).Run(t.Context(), params)
	require.ErrorContains(t, err, "the lock that keeps other cleaners away is lost")
	require.EqualValues(t, 1000, result.Events)
	require.Equal(t, 1500, count(t, pool, "outbox_events"))
}
