package pgread

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// A GaveUpError is a read that reached its limits.
type GaveUpError struct {
	cause   *pgconn.PgError
	after   time.Duration
	setting string
	// Blockers are the sessions in the way, as far as they were still there.
	Blockers []Session
	// unknown is why it was not found out who is in the way.
	unknown error
}

func (e *GaveUpError) Unwrap() error { return e.cause }

func (e *GaveUpError) Error() string {
	switch {
	case len(e.Blockers) > 0:
		return fmt.Sprintf("%s; gave up after %s", Describe(e.Blockers), e.after)
	case e.cause.Code == pgerrcode.LockNotAvailable && e.unknown != nil:
		return fmt.Sprintf("gave up after waiting %s for a lock; who holds it is not known: %v", e.after, e.unknown)
	case e.cause.Code == pgerrcode.LockNotAvailable:
		return fmt.Sprintf("gave up after waiting %s for a lock, which nobody holds any more", e.after)
	default:
		return fmt.Sprintf("gave up after %s: %s", e.after, e.cause.Message)
	}
}

// Hint is advice for the operator.
func (e *GaveUpError) Hint() string {
	switch {
	case len(e.Blockers) > 0:
		return Remedy(e.Blockers)
	case e.cause.Code == pgerrcode.LockNotAvailable:
		return "run it again"
	default:
		return fmt.Sprintf("raise %s (now %s), or ask for less", e.setting, e.after)
	}
}

// gaveUp reports whether the server ended a statement at one of the limits.
func gaveUp(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == pgerrcode.LockNotAvailable || pg.Code == pgerrcode.QueryCanceled)
}

// Explain finds out who is in the way of a statement that was given up. Other errors it returns as
// they are.
func (d *DB) Explain(ctx context.Context, err error) error {
	pg, _ := errors.AsType[*pgconn.PgError](err)
	if !gaveUp(err) || errors.As(err, new(*GaveUpError)) || ctx.Err() != nil {
		return err
	}
	e := &GaveUpError{cause: pg, after: d.Statement, setting: d.Setting}
	if pg.Code == pgerrcode.LockNotAvailable {
		e.after = d.Lock
	}
	e.Blockers, e.unknown = d.Blockers(ctx)
	return fault.As(fault.Precondition, e)
}

// A Session keeps readers of the outbox waiting.
type Session struct {
	PID         int32  `db:"pid"` // 0: a prepared transaction
	Application string `db:"application"`
	// Age is that of its transaction; 0 where this login may not see it.
	Age time.Duration `db:"age"`
}

// Reading conflicts with one lock only. A session that waits for it blocks as well, because later
// ones queue up behind it; those that it waits for are the cause, and come first. Everybody may see
// a session's pid and application, and members of pg_read_all_stats its age.
const blockersSQL = `
WITH alone AS (
    SELECT l.pid, l.virtualtransaction, NOT bool_or(l.granted) AS waits
      FROM pg_locks AS l
      JOIN pg_class AS c ON c.oid = l.relation
     WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND c.relname LIKE 'outbox\_%'
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.pid IS DISTINCT FROM pg_backend_pid()
     GROUP BY 1, 2
), causes AS (
    SELECT pid, virtualtransaction, waits FROM alone
    UNION ALL
    SELECT DISTINCT b.pid, NULL, false
      FROM alone AS w, unnest(pg_blocking_pids(w.pid)) AS b (pid)
     WHERE w.waits AND b.pid NOT IN (SELECT a.pid FROM alone AS a WHERE a.pid IS NOT NULL)
)
SELECT coalesce(c.pid, 0) AS pid,
       coalesce(nullif(a.application_name, ''), a.backend_type, 'prepared transaction ' || p.gid, 'no name') AS application,
       date_trunc('second', coalesce(clock_timestamp() - coalesce(a.xact_start, p.prepared), '0')) AS age
  FROM causes AS c
  LEFT JOIN pg_stat_activity AS a ON a.pid = c.pid
  LEFT JOIN pg_prepared_xacts AS p ON coalesce(c.pid, 0) = 0 AND split_part(c.virtualtransaction, '/', 2) = p.transaction::text
 ORDER BY c.waits, age DESC, pid`

// Blockers lists who keeps readers of the outbox's tables waiting, the cause first. The question waits for nobody, so the reader's own limits, which may be
// short, are not its limits.
func (d *DB) Blockers(ctx context.Context) ([]Session, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	t, err := d.With(Within(DefaultTimeout)).begin(ctx, pgx.TxOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.Rollback(ctx) }() // nothing was written
	found, err := t.Tx.Query(ctx, blockersSQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByName[Session])
}

// Describe names the sessions that are in the way in one line.
func Describe(sessions []Session) string {
	parts := make([]string, len(sessions))
	for i, s := range sessions {
		parts[i] = fmt.Sprintf("pid %d (%s)", s.PID, safetext.Line(s.Application))
		if s.Age > 0 {
			parts[i] = fmt.Sprintf("pid %d (%s) for %s", s.PID, safetext.Line(s.Application), s.Age)
		}
	}
	return "locked by " + strings.Join(parts, ", ")
}

// Remedy returns what to do about the first of them, which is the cause.
func Remedy(sessions []Session) string {
	if sessions[0].PID == 0 {
		return "wait until it ends, or end it: COMMIT PREPARED or ROLLBACK PREPARED"
	}
	return fmt.Sprintf("wait until it ends, or end it: SELECT pg_terminate_backend(%d)", sessions[0].PID)
}
