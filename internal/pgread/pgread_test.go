package pgread_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

// The tests below wait for these, not for the default.
const soon = 200 * time.Millisecond

// reader is a database with one connection, so that what a statement leaves on it is seen by the next.
func reader(t *testing.T, db *outboxtest.Database, mode pgx.QueryExecMode, user string) *pgread.DB {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	config.MaxConns = 1
	config.ConnConfig.DefaultQueryExecMode = mode
	if user != "" {
		config.ConnConfig.User, config.ConnConfig.Password = user, "x"
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &pgread.DB{Pool: pool, Limits: pgread.Within(soon), Setting: "database.read_timeout"}
}

// session opens a connection that runs statements, and returns its process id.
func session(t *testing.T, db *outboxtest.Database, statements ...string) (conn *pgx.Conn, pid int32) {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL)
	require.NoError(t, err)
	config.RuntimeParams["application_name"] = "nightly report"
	conn, err = pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range statements {
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	return conn, int32(conn.PgConn().PID())
}

func count(t *testing.T, db *pgread.DB) error {
	t.Helper()
	var n int
	return db.QueryRow(t.Context(), "SELECT count(*) FROM outbox_events WHERE attempt_count >= $1", 0).Scan(&n)
}

// Whatever way statements are sent, a read ends at its limit, names the holder, and leaves nothing set on the connection: behind
// a transaction pooler the next client has it.
func TestALockIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	holder, pid := session(t, db, "BEGIN; LOCK TABLE outbox_events")
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		r := reader(t, db, mode, "")
		for _, err := range []error{
			count(t, r),
			pgx.BeginTxFunc(t.Context(), r, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
				rows, err := tx.Query(t.Context(), "SELECT seq FROM outbox_events")
				if err == nil {
					_, err = pgx.CollectRows(rows, pgx.RowTo[int64])
				}
				return fmt.Errorf("read: %w", err)
			}),
			pgx.BeginTxFunc(t.Context(), r, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "SELECT FROM outbox_events")
				return err
			}),
		} {
			var late *pgread.GaveUpError
			require.ErrorAs(t, err, &late, mode)
			require.Len(t, late.Blockers, 1)
			require.Equal(t, pid, late.Blockers[0].PID)
			require.Regexp(t, fmt.Sprintf(`locked by pid %d \(nightly report\)( for \d+s)?; gave up after 160ms$`, pid), err.Error())
			require.Equal(t, fmt.Sprintf("wait until it ends, or end it: SELECT pg_terminate_backend(%d)", pid), fault.HintOf(err))
			kind, _ := fault.KindOf(err)
			require.Equal(t, fault.Precondition, kind)
		}
		var compiles, statement, lock string
		require.NoError(t, r.QueryRow(t.Context(), "SELECT current_setting('jit')").Scan(&compiles))
		require.Equal(t, "off", compiles)
		require.NoError(t, r.Pool.QueryRow(t.Context(), "SELECT current_setting('jit'), current_setting('statement_timeout'), current_setting('lock_timeout')").Scan(&compiles, &statement, &lock))
		require.Equal(t, "on 0 0", compiles+" "+statement+" "+lock)
	}
	_, err := holder.Exec(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, count(t, reader(t, db, pgx.QueryExecModeCacheStatement, "")))
}

// Who cannot be asked for is not said to be gone.
func TestWhoBlocksIsNotKnown(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	r := &pgread.DB{Pool: pool, Limits: pgread.Within(time.Second)}
	err = r.Explain(t.Context(), &pgconn.PgError{Code: pgerrcode.LockNotAvailable})
	require.ErrorContains(t, err, "gave up after waiting 800ms for a lock; who holds it is not known: begin to read: ")
}

// A viewer sees who it is, and not for how long.
func TestAViewerSeesWhoBlocks(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	viewer := "viewer_of_" + db.Name
	_, err := db.Pool.Exec(t.Context(), fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'x' IN ROLE outbox_viewer", viewer))
	require.NoError(t, err)
	_, pid := session(t, db, "BEGIN; LOCK TABLE outbox_events")
	err = count(t, reader(t, db, pgx.QueryExecModeExec, viewer))
	require.EqualError(t, err, fmt.Sprintf("locked by pid %d (nightly report); gave up after 160ms", pid))
	require.Equal(t, fmt.Sprintf("wait until it ends, or end it: SELECT pg_terminate_backend(%d)", pid), fault.HintOf(err))
}

// A session that only waits for the table keeps everybody out as well; the one it waits for is the cause.
func TestAWaiterAndItsCauseAreNamed(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, cause := session(t, db, "BEGIN", "SELECT count(*), 'hunter2' FROM outbox_events")
	waiter, waits := session(t, db)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = waiter.Exec(t.Context(), "ALTER TABLE outbox_events ADD COLUMN extra int") // ends with the test's context
	}()
	t.Cleanup(func() { <-done })
	r := reader(t, db, pgx.QueryExecModeExec, "")
	require.Eventually(t, func() bool { found, err := r.Blockers(t.Context()); return err == nil && len(found) == 2 }, time.Minute, 10*time.Millisecond)
	err := count(t, r)
	require.Regexp(t, fmt.Sprintf(`^locked by pid %d \(nightly report\)( for \d+s)?, pid %d \(nightly report\)( for \d+s)?; gave up after 160ms$`, cause, waits), err.Error())
	require.Equal(t, fmt.Sprintf("wait until it ends, or end it: SELECT pg_terminate_backend(%d)", cause), fault.HintOf(err))
}

// A statement that nobody blocks may be too much to ask for.
func TestASlowStatementIsGivenUp(t *testing.T) {
	t.Parallel()
	r := reader(t, outboxtest.DB(t), pgx.QueryExecModeCacheStatement, "")
	var nothing any
	err := r.QueryRow(t.Context(), "SELECT pg_sleep(3600)").Scan(&nothing)
	require.EqualError(t, err, "gave up after 200ms: canceling statement due to statement timeout")
	require.Equal(t, "raise database.read_timeout (now 200ms), or ask for less", fault.HintOf(err))
}
