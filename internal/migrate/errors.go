package migrate

import (
	"errors"
	"fmt"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

const poolerHint = "migrations need one session: connect to PostgreSQL directly or through a session-mode pool, not through a transaction-mode pooler"

// PartialError means that a run stopped at a migration. The ones before it are
// applied and recorded; running again continues with the failed one.
type PartialError struct {
	Applied []Step
	Failed  Step
	Err     error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("migration %s: %v", e.Failed, e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }

// Hint is advice for the operator: the database's own, when it gave some.
func (e *PartialError) Hint() string {
	var pg *pgconn.PgError
	switch {
	case errors.As(e.Err, &pg) && pg.Hint != "":
		return pg.Hint
	case IsLockTimeout(e.Err):
		return "long transactions hold the table: look at pg_stat_activity, then run the command again"
	default:
		return "run the command again once the cause is gone; it continues where it stopped"
	}
}

// IsLockTimeout reports whether a statement lost a race for locks: trying again later is all it
// takes.
func IsLockTimeout(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case pgerrcode.LockNotAvailable, pgerrcode.DeadlockDetected, pgerrcode.SerializationFailure, pgerrcode.ObjectInUse:
		return true
	}
	return false
}
