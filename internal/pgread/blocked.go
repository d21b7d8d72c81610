package pgread

import (
	"cmp"
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
	// PID is 0 for a prepared transaction, whose name is Application.
	PID         int32  `db:"pid"`
	Application string `db:"application"`
	User        string `db:"username"`
	// Relations are the tables and indexes that it holds or wants alone; none: it is only in the way
	// of one that does.
	Relations []string `db:"relations"`
	// Waits: it has no lock yet, but whoever comes later waits behind it.
	Waits bool `db:"waits"`
	// State, Since and Statement are empty where this login may not see them.
	State     string     `db:"state"`
	Since     *time.Time `db:"since"` // its transaction began
	Statement string     `db:"statement"`
	Now       time.Time  `db:"now"`
}

// Reading conflicts with one lock only. A session that waits for it blocks as well, because later
// ones queue up behind it; then those that it waits for are the cause. pg_stat_activity shows pid,
// user and application to everybody, the rest to members of pg_read_all_stats and to the same user.
const blockersSQL = `
WITH alone AS (
    SELECT l.pid, l.virtualtransaction, array_agg(DISTINCT c.relname::text ORDER BY c.relname::text) AS relations, NOT bool_or(l.granted) AS waits
      FROM pg_locks AS l
      JOIN pg_class AS c ON c.oid = l.relation
     WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND c.relname LIKE 'outbox\_%'
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.pid IS DISTINCT FROM pg_backend_pid()
     GROUP BY 1, 2
), causes AS (
    SELECT pid, virtualtransaction, relations, waits FROM alone
    UNION ALL
    SELECT DISTINCT b.pid, NULL, NULL::text[], false
      FROM alone AS w, unnest(pg_blocking_pids(w.pid)) AS b (pid)
     WHERE w.waits AND b.pid NOT IN (SELECT a.pid FROM alone AS a WHERE a.pid IS NOT NULL)
)
SELECT coalesce(c.pid, 0) AS pid,
       coalesce(nullif(a.application_name, ''), a.backend_type, p.gid, '') AS application,
       coalesce(a.usename, p.owner, '')::text AS username,
       c.relations, c.waits, coalesce(a.state, '') AS state, coalesce(a.xact_start, p.prepared) AS since,
       CASE WHEN a.state IS NULL THEN '' ELSE left(a.query, 200) END AS statement, clock_timestamp() AS now
  FROM causes AS c
  LEFT JOIN pg_stat_activity AS a ON a.pid = c.pid
  LEFT JOIN pg_prepared_xacts AS p ON coalesce(c.pid, 0) = 0 AND split_part(c.virtualtransaction, '/', 2) = p.transaction::text
 ORDER BY c.waits DESC, c.relations IS NULL, since NULLS LAST, pid`

// Blockers lists who keeps readers of the outbox's tables waiting. One that waits itself stands
// before what it waits for. The question waits for nobody, so the reader's own limits, which may be
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

// Describe names every session that is in the way.
func Describe(sessions []Session) string {
	parts := make([]string, len(sessions))
	for i, s := range sessions {
		switch {
		case s.Waits:
			parts[i] = fmt.Sprintf("%s waits to lock %s%s, and everybody who comes later waits behind it",
				s.name(), s.tables(), s.activity())
		case s.Relations == nil:
			parts[i] = fmt.Sprintf("%s holds a lock that it waits for%s", s.name(), s.activity())
		default:
			parts[i] = fmt.Sprintf("%s has locked %s%s", s.name(), s.tables(), s.activity())
		}
	}
	return strings.Join(parts, "; ")
}

func (s Session) name() string {
	if s.PID == 0 {
		return fmt.Sprintf("prepared transaction %s of user %s", safetext.Line(s.Application),
			safetext.Line(s.User))
	}
	return fmt.Sprintf("session %d (%s, user %s)", s.PID,
		safetext.Line(cmp.Or(s.Application, "no name")), safetext.Line(cmp.Or(s.User, "none")))
}

func (s Session) tables() string {
	const most = 3
	if more := len(s.Relations) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(s.Relations[:most], ", "), more)
	}
	return strings.Join(s.Relations, ", ")
}

// activity is since when the session is at work and at what, as far as that is visible.
func (s Session) activity() string {
	var b strings.Builder
	if s.Since != nil {
		fmt.Fprintf(&b, ", in a transaction for %s (since %s)", s.Now.Sub(*s.Since).Round(time.Second),
			s.Since.UTC().Format(time.RFC3339))
	}
	if s.State != "" {
		fmt.Fprintf(&b, ", %s", s.State)
	}
	if text := outline(s.Statement); text != "" {
		fmt.Fprintf(&b, ": %s", text)
	}
	return b.String()
}

// outline is the beginning of a statement up to its first value: values may be secret.
func outline(statement string) string {
	const most = 60
	text := strings.Join(strings.Fields(statement), " ")
	cut := strings.IndexAny(text, "'$")
	if cut < 0 && len([]rune(text)) <= most {
		return safetext.Line(text)
	}
	if cut >= 0 {
		text = text[:cut]
	}
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return safetext.Line(strings.TrimSpace(text)) + "…"
}

// Remedy returns what to do about sessions that are in the way.
func Remedy(sessions []Session) string {
	var steps []string
	hidden := false
	for _, s := range sessions {
		switch {
		case s.Waits && len(sessions) > 1:
		case s.PID == 0:
			steps = append(steps, fmt.Sprintf("COMMIT PREPARED or ROLLBACK PREPARED '%s'",
				strings.ReplaceAll(safetext.Line(s.Application), "'", "''")))
		case s.State == "active":
			steps = append(steps, fmt.Sprintf("SELECT pg_cancel_backend(%d)", s.PID))
		default:
			steps = append(steps, fmt.Sprintf("SELECT pg_terminate_backend(%d)", s.PID))
		}
		hidden = hidden || s.PID != 0 && s.State == ""
	}
	text := "wait until it ends, or end it: " + strings.Join(steps, "; ")
	if hidden {
		text += " (members of pg_read_all_stats see what it does)"
	}
	return text
}
