package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// errInjected is what FailRate produces.
	errInjected = errors.New("failure injected by the fail rate")

	// errApplied: the inbox already holds the event.
	errApplied = errors.New("event is in the inbox")

	// errDatabaseAway wraps failures that say nothing about the event.
	errDatabaseAway = errors.New("database gives no answer")
)

// CheckTables says whether the database has what the worker writes to.
func CheckTables(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, checkTables)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		return fmt.Errorf("check the consumer's tables: %w", err)
	}
	return nil
}

// apply runs the handler and writes the inbox row in one transaction.
func (w *Worker) apply(ctx context.Context, e Event, handler Handler) error {
	err := w.inTransaction(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertInbox, w.guard.Consumer(), e.ID.String())
		if err != nil {
			return fmt.Errorf("insert inbox row: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return errApplied
		}
		if err := handler(ctx, tx, e); err != nil {
			return err
		}
		if w.cfg.FailRate > 0 && w.cfg.Random() < w.cfg.FailRate {
			return errInjected
		}
		return nil
	})
	if err != nil && ctx.Err() == nil && databaseAway(err) {
		return fmt.Errorf("%w: %w", errDatabaseAway, err)
	}
	return err
}

func (w *Worker) inTransaction(ctx context.Context, f func(pgx.Tx) error) error {
	// The level is set explicitly: under a role's default of REPEATABLE READ two
	// deliveries of one event would meet a serialisation failure in the inbox.
	return pgx.BeginTxFunc(ctx, w.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
}

// databaseAway tells an outage from a verdict: no connection, a server that is
// stopping, starting, full or read-only. Deadlocks and constraint violations
// are answers.
func databaseAway(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pgerrcode.IsConnectionException(pg.Code) ||
			pgerrcode.IsInsufficientResources(pg.Code) ||
			pg.Code == pgerrcode.AdminShutdown ||
			pg.Code == pgerrcode.CrashShutdown ||
			pg.Code == pgerrcode.CannotConnectNow ||
			pg.Code == pgerrcode.ReadOnlySQLTransaction
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}
