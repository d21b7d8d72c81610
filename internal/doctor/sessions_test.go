package doctor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
)

// The tightest limit counts, and who uses it is named.
func TestConnectionsThatRunOut(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	require.Equal(t, doctor.OK, examine(t, db.Pool, "connections", nil)[0].Level)
	run(t, db.Pool, fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT 1", db.Name))
	found := examine(t, db.Pool, "connections", nil)
	require.Equal(t, doctor.Warn, found[0].Level)
	require.Regexp(t, fmt.Sprintf(`^database %s uses [1-9]\d* of 1 connections; most are .* as postgres: \d`, db.Name), found[0].Message)
	require.Contains(t, found[0].Remedy, fmt.Sprintf(`ALTER DATABASE %q CONNECTION LIMIT`, db.Name))
}

// Somebody who waits for a row is no reader's trouble, but a producer's.
func TestSessionsThatWaitForALock(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	require.Equal(t, doctor.OK, examine(t, db.Pool, "locks", nil)[0].Level)
	run(t, db.Pool, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) VALUES (gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), '{}')`)
	holder, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = holder.Exec(t.Context(), "SELECT FROM outbox_events FOR UPDATE")
	require.NoError(t, err)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		_, _ = db.Pool.Exec(ctx, "SELECT FROM outbox_events FOR UPDATE") // ends with ctx
	}()
	defer func() { cancel(); <-done }()
	var found []doctor.Finding
	require.Eventually(t, func() bool {
		found = examine(t, db.Pool, "locks", func(d *doctor.Database) { d.LockWait = 0 })
		return found[0].Level == doctor.Warn
	}, time.Minute, 10*time.Millisecond)
	pid := holder.Conn().PgConn().PID()
	require.Regexp(t, fmt.Sprintf(`^sessions that wait for a lock: 1; session \d+ has waited \S+ for a row, behind %d$`, pid), found[0].Message)
	require.Contains(t, found[0].Remedy, fmt.Sprintf("pid = ANY ('{%d}')", pid))
}

// A viewer may run every check of sessions.
func TestAViewerExaminesSessions(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET ROLE outbox_viewer")
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for _, check := range []string{"locks", "connections"} {
		found := examine(t, pool, check, nil)
		require.Len(t, found, 1)
		require.Equal(t, doctor.OK, found[0].Level, found[0].Message)
	}
}

// Checks that fail for one cause are one finding, with the advice of the error.
func TestChecksThatFailForOneCause(t *testing.T) {
	t.Parallel()
	failing := func(err error) func(context.Context) ([]doctor.Finding, error) {
		return func(context.Context) ([]doctor.Finding, error) { return nil, err }
	}
	denied := fmt.Errorf("ask: %w", &pgread.GaveUpError{Blockers: []pgread.Session{{PID: 7, Application: "a", Age: 3 * time.Second}}})
	found := doctor.Examine(t.Context(), []doctor.Check{
		{Area: "a", Name: "one", Remedy: "own advice", Run: failing(denied)},
		{Area: "a", Name: "two", Run: failing(denied)},
		{Area: "b", Name: "three", Remedy: "x", Run: failing(context.Canceled)},
		{Area: "c", Name: "four", Remedy: "y", Run: failing(context.Canceled)},
	})
	require.Equal(t, []doctor.Finding{
		{Area: "a", Check: "one, two", Level: doctor.Fail, Message: "check failed: locked by pid 7 (a) for 3s; gave up after 0s",
			Remedy: "wait until it ends, or end it: SELECT pg_terminate_backend(7)"},
		{Area: "b", Check: "three", Level: doctor.Fail, Message: "check failed: context canceled", Remedy: "x"},
		{Area: "c", Check: "four", Level: doctor.Fail, Message: "check failed: context canceled", Remedy: "y"},
	}, found)
}
