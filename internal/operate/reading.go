package operate

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// readRoleQuery reports whether the login may take a role on; null: there is no such role.
const readRoleQuery = `SELECT (SELECT pg_has_role(current_user, r.oid, 'MEMBER') FROM pg_catalog.pg_roles AS r WHERE r.rolname = $1)`

// CheckReadRole refuses a role that does not exist, or that the login of the database is no member of.
func (o *Outbox) CheckReadRole(ctx context.Context, role string) error {
	var member *bool
	if err := o.DB.QueryRow(ctx, readRoleQuery, role).Scan(&member); err != nil {
		return err
	}
	switch {
	case member == nil:
		return fault.Hint(fault.Preconditionf("read as %s: the database has no such role", role), "outboxctl migrate creates it; --read-role names another, and - reads with the login's own rights")
	case !*member:
		return fault.Hint(fault.Preconditionf("read as %s: the login is not a member of that role", role), "GRANT %s TO the login; outboxctl migrate grants prints what each role needs", role)
	}
	return nil
}

// behindQuery is how old the newest change is that a replica has applied. One that has applied everything it received is
// not behind, however long nothing has changed.
const behindQuery = `
SELECT CASE WHEN pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn()
            THEN coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) ELSE 0 END::float8`

// Behind returns how far the server is behind the one it is a replica of; nothing where it is none.
func (o *Outbox) Behind(ctx context.Context) (time.Duration, error) {
	var seconds float64
	if err := o.DB.QueryRow(ctx, behindQuery).Scan(&seconds); err != nil {
		return 0, StoreError(err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
