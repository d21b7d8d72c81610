package emit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// One statement writes at most this much, so that neither side holds a large batch
// several times over.
const (
	maxEventsPerStatement = 500
	maxBytesPerStatement  = 16 << 20
)

// emitManySQL writes any number of events in one round trip and returns a row for
// each, in order. The argument is text on purpose: it is the one parameter type that
// every exec mode of pgx, every database/sql driver and every pooler agrees on.
const emitManySQL = `SELECT ord, id::text, already_enqueued FROM outbox_emit_many($1::text::jsonb) ORDER BY ord`

// Emit writes one event in the caller's transaction, in one round trip. When the
// event is refused (ErrInvalid) nothing was sent and the transaction goes on; any
// other error comes from the database, and the transaction is lost.
func (e *Emitter) Emit(ctx context.Context, tx pgx.Tx, event Event) (Result, error) {
	return first(e.EmitAll(ctx, tx, []Event{event}))
}

// EmitAll writes events in the caller's transaction, in one round trip per 500. All
// are checked before the first is sent.
func (e *Emitter) EmitAll(ctx context.Context, tx pgx.Tx, events []Event) ([]Result, error) {
	prepared, err := e.prepareAll(ctx, events)
	if err != nil {
		return nil, err
	}
	return e.Write(ctx, tx, prepared)
}

// EmitSQL is Emit for a transaction of database/sql.
func (e *Emitter) EmitSQL(ctx context.Context, tx *sql.Tx, event Event) (Result, error) {
	return first(e.EmitAllSQL(ctx, tx, []Event{event}))
}

// EmitAllSQL is EmitAll for a transaction of database/sql.
func (e *Emitter) EmitAllSQL(ctx context.Context, tx *sql.Tx, events []Event) ([]Result, error) {
	prepared, err := e.prepareAll(ctx, events)
	if err != nil {
		return nil, err
	}
	return write(prepared, func(text string) (resultRows, error) {
		rows, err := tx.QueryContext(ctx, emitManySQL, text)
		if err != nil {
			return nil, err
		}
		return sqlRows{rows}, nil
	})
}

// Write writes events that Prepare returned, in one round trip per 500.
func (e *Emitter) Write(ctx context.Context, tx pgx.Tx, events []Prepared) ([]Result, error) {
	return write(events, func(text string) (resultRows, error) {
		// Exec mode parses, binds and executes in one round trip whatever the
		// connection's own mode is; the default would first prepare.
		return tx.Query(ctx, emitManySQL, pgx.QueryExecModeExec, text)
	})
}

func (e *Emitter) prepareAll(ctx context.Context, events []Event) ([]Prepared, error) {
	var all map[string]string
	if e.Headers != nil {
		all = e.Headers(ctx)
	}
	prepared := make([]Prepared, len(events))
	for i, p := range events {
		if len(all) > 0 {
			own := p.Headers
			p.Headers = maps.Clone(all)
			maps.Copy(p.Headers, own)
		}
		var err error
		if prepared[i], err = e.Prepare(p); err != nil {
			if invalid, ok := errors.AsType[*InvalidError](err); ok {
				invalid.Index = i
			}
			if len(events) > 1 {
				err = fmt.Errorf("event %d: %w", i+1, err)
			}
			return nil, err
		}
	}
	return prepared, nil
}

func first(results []Result, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// resultRows is what pgx.Rows and sql.Rows have in common.
type resultRows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

type sqlRows struct{ *sql.Rows }

// Close drops the error: whatever went wrong is in Err already.
func (r sqlRows) Close() { _ = r.Rows.Close() }

func write(events []Prepared, query func(text string) (resultRows, error)) ([]Result, error) {
	results := make([]Result, 0, len(events))
	for len(events) > 0 {
		n, text := statement(events)
		rows, err := query(text)
		if err != nil {
			return nil, emitFailed(err)
		}
		before := len(results)
		if results, err = collect(rows, results); err != nil {
			return nil, emitFailed(err)
		}
		if got := len(results) - before; got != n {
			return nil, fmt.Errorf("emit events: %d results for %d events", got, n)
		}
		events = events[n:]
	}
	return results, nil
}

// statement takes as many events as one statement may carry.
func statement(events []Prepared) (n int, text string) {
	size := 0
	for n < len(events) && n < maxEventsPerStatement && (n == 0 || size+events[n].Bytes() < maxBytesPerStatement) {
		size += events[n].Bytes() + 1
		n++
	}
	array := make([]byte, 0, size+1)
	for i, event := range events[:n] {
		if i == 0 {
			array = append(array, '[')
		} else {
			array = append(array, ',')
		}
		array = append(array, event.row...)
	}
	return n, string(append(array, ']'))
}

func collect(rows resultRows, results []Result) ([]Result, error) {
	defer rows.Close()
	for rows.Next() {
		var (
			ord    int
			id     string
			result Result
		)
		if err := rows.Scan(&ord, &id, &result.AlreadyEnqueued); err != nil {
			return nil, err
		}
		var err error
		if result.ID, err = uuid.Parse(id); err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, rows.Err()
}
