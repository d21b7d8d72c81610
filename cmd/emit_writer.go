package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/emit"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// emittedEvent is a written event as emit prints it.
type emittedEvent struct {
	ID              uuid.UUID `json:"id"`
	Type            string    `json:"type"`
	Topic           string    `json:"topic"`
	AlreadyEnqueued bool      `json:"alreadyEnqueued"`
	// Line is the line of the stream, absent for an event given by flags.
	Line int `json:"line,omitempty"`
}

func emittedView() cli.View[emittedEvent] {
	return cli.View[emittedEvent]{
		ID: func(e emittedEvent) string { return e.ID.String() },
		Columns: []cli.Column[emittedEvent]{
			{Head: "id", Cell: func(e emittedEvent, _ *cli.CellStyle) string { return e.ID.String() }},
			{Head: "type", Cell: func(e emittedEvent, _ *cli.CellStyle) string { return e.Type }},
			{Head: "topic", Wide: true, Cell: func(e emittedEvent, _ *cli.CellStyle) string { return e.Topic }},
			{Head: "already enqueued", Cell: func(e emittedEvent, _ *cli.CellStyle) string { return fmt.Sprint(e.AlreadyEnqueued) }},
			{Head: "line", Wide: true, Cell: func(e emittedEvent, s *cli.CellStyle) string { return s.Count(int64(e.Line)) }},
		},
	}
}

// emitWriter writes events in transactions and prints them once they are committed.
type emitWriter struct {
	opts     *emitOptions
	emitter  *emit.Emitter
	pool     *pgxpool.Pool
	out      cli.ListWriter[emittedEvent]
	flush    func() error
	patience time.Duration

	// The open transaction, nil between two of them.
	tx      pgx.Tx
	xid     string
	pending []emittedEvent

	// What is committed.
	events, already int
	line            int
}

func newEmitWriter(opts *emitOptions, emitter *emit.Emitter, pool *pgxpool.Pool) *emitWriter {
	// Ids leave in one piece per transaction: a system call for each would be a tenth of the work.
	buffered := *opts.app
	buffer := bufio.NewWriterSize(opts.app.Out, 64<<10)
	buffered.Out = buffer
	w := &emitWriter{
		opts: opts, emitter: emitter, pool: pool, patience: commitTimeout,
		out: cli.NewListWriter(&buffered, opts.output.Format, emittedView()), flush: buffer.Flush,
	}
	if f := opts.output.Format; !opts.stdin && (f == cli.FormatJSON || f == cli.FormatYAML) {
		w.out = oneEvent{&buffered, f}
	}
	return w
}

// oneEvent prints an event given by flags: one thing is an object, not a list of one.
type oneEvent struct {
	app    *cli.App
	format string
}

func (o oneEvent) Write(e emittedEvent) error { return cli.WriteObject(o.app, o.format, e, nil) }
func (o oneEvent) Close() error               { return nil }

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
		w.pending = append(w.pending, emittedEvent{
			ID: r.ID, Type: prepared[i].Type, Topic: prepared[i].Topic,
			AlreadyEnqueued: r.AlreadyEnqueued, Line: lines[i].number,
		})
	}
	return nil
}

// begin opens a transaction and notes its id: it is the only way to learn later
// what became of a COMMIT whose answer got lost.
func (w *emitWriter) begin(ctx context.Context) error {
	tx, err := w.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	w.tx = tx
	if err := tx.QueryRow(ctx, `SELECT pg_current_xact_id()::text`, pgx.QueryExecModeExec).Scan(&w.xid); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	return nil
}

// commitTimeout bounds a COMMIT and the question after its outcome. Neither listens to
// Ctrl-C: interrupting a COMMIT would only make its outcome unknown.
const commitTimeout = 15 * time.Second

// commit commits what is open, then prints it.
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
		w.events++
		if e.AlreadyEnqueued {
			w.already++
		}
		w.line = e.Line
	}
	for _, e := range written {
		if err := w.out.Write(e); err != nil {
			return fmt.Errorf("print ids of committed events: %w", err)
		}
	}
	if err := w.flush(); err != nil {
		return fmt.Errorf("print ids of committed events: %w", err)
	}
	return nil
}

// close ends the list.
func (w *emitWriter) close() error { return errors.Join(w.out.Close(), w.flush()) }

// unknownOutcomeError means that nobody knows whether a transaction committed.
type unknownOutcomeError struct {
	lines string
	err   error
}

func (e *unknownOutcomeError) Error() string {
	return fmt.Sprintf("connection lost while committing%s, and it could not be found out whether they are: %s", e.lines, e.err)
}
func (e *unknownOutcomeError) Unwrap() error { return e.err }

// outcome finds out what became of a COMMIT that came back with an error. An error
// that the server sent is its answer; any other means that the answer got lost, and
// then the server is asked again: running the lines a second time on a guess would
// double them.
func (w *emitWriter) outcome(ctx context.Context, cause error) error {
	var refused *pgconn.PgError
	if errors.As(cause, &refused) && refused.Code[:2] != "57" {
		return fmt.Errorf("commit: %w", cause)
	}
	lines := " an event"
	if n := len(w.pending); n > 0 && w.pending[0].Line > 0 {
		lines = fmt.Sprintf(" lines %d to %d", w.pending[0].Line, w.pending[n-1].Line)
	}
	for {
		var status string
		err := w.pool.QueryRow(ctx, `SELECT coalesce(pg_xact_status($1::text::xid8), 'unknown')`, pgx.QueryExecModeExec, w.xid).Scan(&status)
		switch {
		case err == nil && status == "committed":
			return nil
		case err == nil && status == "aborted":
			return fmt.Errorf("commit: %w", cause)
		case ctx.Err() != nil, err == nil && status == "unknown":
			return &unknownOutcomeError{lines, cause}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
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

// failed ends a run that went wrong: it says what is committed and chooses the code.
func (w *emitWriter) failed(ctx context.Context, err error) error {
	w.rollback(ctx)
	if w.events > 0 {
		// Only the end of the list is missing; the error at hand matters more.
		_ = w.close()
	}
	var unknown *unknownOutcomeError
	if errors.As(err, &unknown) {
		return fault.Hint(fault.As(fault.Partial, err), "events with a dedupe key can be sent again safely; for others look at outboxctl event list first")
	}
	if w.events == 0 {
		return emitError(err)
	}
	return fault.As(fault.Partial, emitError(err))
}
