package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/wait"
)

const (
	retryBase   = 200 * time.Millisecond
	retryMax    = 5 * time.Second
	pingTimeout = 3 * time.Second
)

// awayError means a dependency gives no answer, which says nothing about the
// event. It pauses receiving.
type awayError struct {
	dependency string
	err        error
}

func (e *awayError) Error() string { return e.dependency + " is away: " + e.err.Error() }
func (e *awayError) Unwrap() error { return e.err }

// databaseAway reports whether the database is the reason: no connection, a
// server that is stopping, starting, full or read-only. Deadlocks and
// constraint violations are answers.
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

var errReadOnly = errors.New("the database is read-only")

// awaitDependencies returns when Redis and PostgreSQL take writes. Receiving
// without them would only nack, and every nack brings a message closer to its
// dead-letter topic. A ping proves nothing: a Redis without memory and a
// standby answer it.
func (w *Worker) awaitDependencies(ctx context.Context) error {
	delay, waited := retryBase, false
	for {
		away := w.pingAll(ctx)
		if away == nil {
			w.metrics.setAway("")
			if waited {
				w.cfg.Log.Info().Msg("dependencies are back")
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.setTrouble(away)
		w.metrics.setAway(away.dependency)
		if !waited {
			w.cfg.Log.Warn().Err(away).Msg("waiting for a dependency")
			waited = true
		}
		if err := wait.For(ctx, delay); err != nil {
			return err
		}
		delay = min(2*delay, retryMax)
	}
}

func (w *Worker) pingAll(ctx context.Context) *awayError {
	if err := w.guard.Announce(ctx); err != nil {
		return &awayError{dependencyRedis, err}
	}
	if err := w.pingDatabase(ctx); err != nil {
		return &awayError{dependencyDatabase, err}
	}
	return nil
}

func (w *Worker) pingDatabase(ctx context.Context) error {
	if w.pool == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	var readOnly bool
	if err := w.pool.QueryRow(ctx, `SELECT current_setting('transaction_read_only')::bool`).Scan(&readOnly); err != nil {
		return fmt.Errorf("ping the database: %w", err)
	}
	if readOnly {
		return errReadOnly
	}
	return nil
}

// Permanent reports whether a receive error needs a person: a subscription that
// does not exist, or may not be read.
func Permanent(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition:
		return true
	default:
		return false
	}
}
