package pgread

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// readRoleQuery reports whether the login may take a role on, and whether the role may read events
// here: roles belong to the whole server, their rights to one database. Rights are null where there
// is no table yet.
const readRoleQuery = `
SELECT pg_has_role(current_user, r.oid, 'MEMBER'), has_any_column_privilege(r.oid, to_regclass('outbox_events')::oid, 'SELECT')
  FROM pg_catalog.pg_roles AS r WHERE r.rolname = $1`

// Querier reads one row.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckRole refuses a role under which the database cannot be read: it does not exist, the login is
// no member of it, or it has no rights in this database, which is ErrNoRights.
func CheckRole(ctx context.Context, db Querier, role string) error {
	var member bool
	var rights *bool
	switch err := db.QueryRow(ctx, readRoleQuery, role).Scan(&member, &rights); {
	case errors.Is(err, pgx.ErrNoRows):
		return fault.Hint(fault.Preconditionf("read as %s: the database has no such role", role),
			"outboxctl migrate creates it; --read-role names another, and - reads with the login's own rights")
	case err != nil:
		return err
	case rights != nil && !*rights:
		return fault.Hint(fault.Preconditionf("read as %s: %w", role, ErrNoRights),
			"outboxctl migrate grants --viewer %s prints what it needs", role)
	case !member:
		return fault.Hint(fault.Preconditionf("read as %s: the login is not a member of that role",
			role), "GRANT %s TO the login; outboxctl migrate grants prints what each role needs", role)
	}
	return nil
}

// ErrNoRights means that a role may read nothing in this database, whatever it may in another of
// the same server.
var ErrNoRights = errors.New("the role has no rights in this database")

// behindQuery is how old the newest change is that a replica has applied. One that has applied
// everything it received is not behind, however long nothing has changed.
const behindQuery = `
SELECT CASE WHEN pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn()
            THEN coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) ELSE 0 END::float8`

// Behind returns how far the server is behind the one it is a replica of; nothing where it is none.
func Behind(ctx context.Context, db Querier) (time.Duration, error) {
	var seconds float64
	if err := db.QueryRow(ctx, behindQuery).Scan(&seconds); err != nil {
		return 0, err
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
