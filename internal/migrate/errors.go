package migrate

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// NewerError means that the database has migrations this binary does not know:
// a newer one was here. Nothing was changed.
type NewerError struct {
	Database int64   // highest version the database has
	Binary   int64   // highest version this binary has
	Unknown  []int64 // versions the binary does not know
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("database schema version %d is not known to this binary, which ends at %d (unknown: %v)", e.Database, e.Binary, e.Unknown)
}

// Hint is advice for the operator.
func (e *NewerError) Hint() string {
	return "use the outboxctl version that migrated this database, or a newer one"
}

// NoVersionError means that Options.To names no migration of this binary. Nothing was changed.
type NoVersionError struct{ Version int64 }

func (e *NoVersionError) Error() string {
	return fmt.Sprintf("no migration has version %d",
		e.Version)
}

// Hint is advice for the operator.
func (e *NoVersionError) Hint() string { return "outboxctl migrate status lists the versions" }

// BusyError means that another run held the migration lock for the whole wait.
type BusyError struct {
	Waited time.Duration
	PID    int32 // backend that holds the lock, 0 when it could not be seen
}

func (e *BusyError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("another migration holds the lock, waited %s", e.Waited.Round(time.Second))
	}
	return fmt.Sprintf("another migration (backend %d) holds the lock, waited %s", e.PID,
		e.Waited.Round(time.Second))
}

// Hint is advice for the operator.
func (e *BusyError) Hint() string { return "wait for it to finish and run the command again" }

// SessionLostError means that statements of one run reached different backends,
// so the advisory lock protects nothing. Nothing more was run.
type SessionLostError struct {
	Locked, Now int32 // backends: the one that holds the lock, the one now answering
}

func (e *SessionLostError) Error() string {
	return fmt.Sprintf("the migration lock was taken by backend %d but backend %d answers now",
		e.Locked, e.Now)
}

// Hint is advice for the operator.
func (e *SessionLostError) Hint() string { return poolerHint }

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
