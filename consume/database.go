package consume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
