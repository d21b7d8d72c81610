package consume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is a *pgxpool.Pool, or anything else that begins transactions.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// insertInbox records that the consumer has applied the event. A second
// transaction with the same key waits for the first and then inserts nothing.
const insertInbox = `
INSERT INTO inbox_events (consumer, event_id)
VALUES ($1, $2::uuid)
ON CONFLICT (consumer, event_id) DO NOTHING`

// Once runs effect in a transaction together with the event's row in the table
// inbox_events, so that there is one effect per consumer and event whatever Redis
// remembers. It reports false, without running it, when an earlier delivery did.
// The table is the one that outboxctl migrate creates.
func Once(ctx context.Context, db DB, consumer string, eventID uuid.UUID, effect func(pgx.Tx) error) (applied bool, err error) {
	// The level is explicit: under a default of REPEATABLE READ, two deliveries
	// of one event would meet a serialisation failure in the inbox.
	err = pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertInbox, consumer, eventID.String())
		if err != nil {
			return fmt.Errorf("insert inbox row: %w", err)
		}
		if applied = tag.RowsAffected() == 1; !applied {
			return nil
		}
		return effect(tx)
	})
	return applied && err == nil, err
}

const pingTimeout = 3 * time.Second

// PingDatabases reports whether the databases of HandleTx and HandleBatch take writes. The error
// wraps ErrDatabaseUnavailable.
func (r *Router) PingDatabases(ctx context.Context) error {
	for _, db := range r.databases {
		if err := ping(ctx, db); err != nil {
			return fmt.Errorf("%w: %w", ErrDatabaseUnavailable, err)
		}
	}
	return nil
}

// ping asks for more than an answer, which a standby gives too.
func ping(ctx context.Context, db DB) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var readOnly bool
		err := tx.QueryRow(ctx, `SELECT current_setting('transaction_read_only')::bool`).Scan(&readOnly)
		if err == nil && readOnly {
			err = errors.New("it is read-only")
		}
		return err
	})
}

// databaseAway reports whether the database is the reason of a handler's error: no connection, a
// server that is stopping, starting, full or read-only. Deadlocks and constraint violations are
// answers.
func databaseAway(ctx context.Context, db DB, err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "57P01", "57P02", "57P03", "25006": // shut down, crashed, cannot connect now, read-only
			return true
		}
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "53") // no connection, no resources
	}
	var network net.Error
	if !errors.As(err, &network) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false
	}
	return ping(ctx, db) != nil // or it is the handler's own trouble with another server
}
