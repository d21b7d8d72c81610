package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// emitWriter writes events in transactions and reports them once they are committed.
type emitWriter struct {
	db        Database
	emitter   *emit.Emitter
	committed func([]Emitted) error
	patience  time.Duration

	// The open transaction, nil between two of them.
	tx      pgx.Tx
	xid     string
	pending []Emitted

	// done is what is committed.
	done EmitResult
}

func (o *Outbox) emitWriter(emitter *emit.Emitter, committed func([]Emitted) error) *emitWriter {
	if committed == nil {
		committed = func([]Emitted) error { return nil }
	}
	return &emitWriter{db: o.DB, emitter: emitter, committed: committed, patience: commitTimeout}
}

// write adds lines to the open transaction, or to a new one.
func (w *emitWriter) write(ctx context.Context, lines []emitLine) error {
	if len(lines) == 0 {
		return nil
	}
	if w.tx == nil {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	prepared := make([]emit.Prepared, len(lines))
	for i, l := range lines {
		prepared[i] = l.prepared
	}
	results, err := w.emitter.Write(ctx, w.tx, prepared)
	if err != nil {
		return err
	}
	for i, r := range results {
		w.pending = append(w.pending, Emitted{
			ID: r.ID, Type: prepared[i].Type, Topic: prepared[i].Topic,
			AlreadyEnqueued: r.AlreadyEnqueued, Line: lines[i].number,
		})
	}
	return nil
}

// begin opens a transaction and notes its id: it is the only way to learn later what became of a
// COMMIT whose answer got lost.
func (w *emitWriter) begin(ctx context.Context) error {
	tx, err := w.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	w.tx = tx
	if err := tx.QueryRow(ctx, `SELECT pg_current_xact_id()::text`,
		pgx.QueryExecModeExec).Scan(&w.xid); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	return nil
}

// commitTimeout bounds a COMMIT and the question after its outcome. Neither listens to the caller's
// context: interrupting a COMMIT would only make its outcome unknown.
const commitTimeout = 15 * time.Second

// commit commits what is open, then reports it.
func (w *emitWriter) commit(ctx context.Context) error {
	if w.tx == nil {
		return nil
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.patience)
	defer cancel()
	err := w.tx.Commit(settle)
	w.tx = nil
	if err != nil {
		if err = w.outcome(settle, err); err != nil {
			return err
		}
	}
	written := w.pending
	w.pending = w.pending[:0]
	for _, e := range written {
		w.done.Events++
		if e.AlreadyEnqueued {
			w.done.Already++
		}
		w.done.Line = e.Line
	}
	return w.committed(written)
}

// unknownOutcomeError means that it is not known whether a transaction committed.
type unknownOutcomeError struct {
	lines string
	err   error
}

func (e *unknownOutcomeError) Error() string {
	return fmt.Sprintf("connection lost while committing%s, and it could not be found out whether they are: %s", e.lines, e.err)
}
func (e *unknownOutcomeError) Unwrap() error { return e.err }

// outcome finds out what became of a COMMIT that came back with an error. An error that the server
// sent is its answer; any other means that the answer got lost, and then the server is asked again:
// running the lines a second time on a guess would double them.
func (w *emitWriter) outcome(ctx context.Context, cause error) error {
	var refused *pgconn.PgError
	if errors.As(cause, &refused) && !pgerrcode.IsOperatorIntervention(refused.Code) {
		return fmt.Errorf("commit: %w", cause)
	}
	lines := " an event"
	if n := len(w.pending); n > 0 && w.pending[0].Line > 0 {
		lines = fmt.Sprintf(" lines %d to %d", w.pending[0].Line, w.pending[n-1].Line)
	}
	for {
		var status string
		err := w.db.QueryRow(ctx, `SELECT coalesce(pg_xact_status($1::text::xid8), 'unknown')`,
			pgx.QueryExecModeExec, w.xid).Scan(&status)
		switch {
		case err == nil && status == "committed":
			return nil
		case err == nil && status == "aborted":
			return fmt.Errorf("commit: %w", cause)
		case ctx.Err() != nil, err == nil && status == "unknown":
			return &unknownOutcomeError{lines, cause}
		}
		_ = wait.For(ctx, 200*time.Millisecond) // it is asked once more at the end
	}
}

// rollback drops the open transaction.
func (w *emitWriter) rollback(ctx context.Context) {
	if w.tx == nil {
		return
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.patience)
	defer cancel()
	// A rollback that does not arrive is done by the server when the connection ends.
	_ = w.tx.Rollback(settle)
	w.tx, w.pending = nil, w.pending[:0]
}

// failed ends a run that went wrong and returns the error with its kind.
func (w *emitWriter) failed(ctx context.Context, err error) error {
	w.rollback(ctx)
	var unknown *unknownOutcomeError
	switch {
	case errors.As(err, &unknown):
		return fault.Hint(fault.As(fault.Partial, err),
			"events with a dedupe key can be sent again safely; for others look at outboxctl event list first")
	case w.done.Events == 0:
		return EmitError(err)
	default:
		return fault.As(fault.Partial, EmitError(err))
	}
}
