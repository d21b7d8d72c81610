package notifications

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// createTable leaves a table of that name as it is, and asks for no right to create one where it is
// there. event_id is not unique: the inbox keeps effects from doubling, and a constraint here would
// only hide it if it did not. Of two workers that start at once, the second waits for the lock.
const createTable = `
DO $$
BEGIN
    IF to_regclass('notifications') IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('create notifications'));
    CREATE TABLE IF NOT EXISTS notifications (
        id         uuid        PRIMARY KEY,
        type       text        NOT NULL,
        audience   text        NOT NULL CHECK (audience IN ('admin', 'store')),
        store_id   uuid        NOT NULL,
        license_id uuid        NOT NULL,
        status     text        NOT NULL,
        reason     text,
        message    text        NOT NULL,
        event_id   uuid        NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        read_at    timestamptz
    );
    CREATE INDEX IF NOT EXISTS notifications_event_id_idx ON notifications (event_id);
    COMMENT ON TABLE notifications IS 'created by outboxctl for its example consumer';
END
$$`

// CreateTable creates the table that Write writes to, where there is none.
func CreateTable(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}) error {
	if _, err := db.Exec(ctx, createTable); err != nil {
		return fmt.Errorf("create the table notifications: %w", err)
	}
	return nil
}
