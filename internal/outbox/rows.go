package outbox

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier runs a query.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// DB is the database: a pool, a connection or a transaction.
type DB interface {
	Querier
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// JSON is a value that the database gets as JSON, in every mode of the driver.
type JSON struct{ Of any }

// Value implements driver.Valuer.
func (j JSON) Value() (driver.Value, error) {
	text, err := json.Marshal(j.Of)
	return string(text), err
}

// ErrNotFound means that no row has the id asked for.
var ErrNotFound = errors.New("not found")

// Rows reads all rows of a query by the names of their columns; what is done with it stands before
// an error. Fields that have no column stay empty.
func Rows[T any](ctx context.Context, db Querier, what, sql string, args ...any) ([]T, error) {
	return collect(ctx, db, pgx.RowToStructByNameLax[T], what, sql, args...)
}

// Column reads all values of a query that has one column.
func Column[T any](ctx context.Context, db Querier, what, sql string, args ...any) ([]T, error) {
	return collect(ctx, db, pgx.RowTo[T], what, sql, args...)
}

func collect[T any](ctx context.Context, db Querier, to pgx.RowToFunc[T], what, sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	found, err := pgx.CollectRows(rows, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

// One reads the value of a query that has one.
func One[T any](ctx context.Context, db DB, what, sql string, args ...any) (found T, err error) {
	if err := db.QueryRow(ctx, sql, args...).Scan(&found); err != nil {
		return found, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

// Each calls do for each row of a query, whose columns it finds in into.
func Each(ctx context.Context, db Querier, what, sql string, args, into []any, do func()) error {
	rows, err := db.Query(ctx, sql, args...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, func() error { do(); return nil })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Event reads an event's row; nil when there is none.
func (o *Outbox) Event(ctx context.Context, id string) (*Event, error) {
	events, err := o.Events(ctx, []string{id})
	if err != nil || len(events) == 0 {
		return nil, err
	}
	return &events[0], nil
}

// Events reads events by id, in the order given. Ids that are not there are left out.
func (o *Outbox) Events(ctx context.Context, ids []string) ([]Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return Rows[Event](ctx, o.DB, "read events", selectEvents, ids)
}

// Neighbours reads the events of the same aggregate around one: up to n before it and n after it,
// oldest first, itself not among them. An event that is gone is taken to have been emitted at.
func (o *Outbox) Neighbours(ctx context.Context, aggregateType, aggregateID, eventID string, at time.Time, n int) ([]Event, error) {
	return Rows[Event](ctx, o.DB, "read events", selectNeighbours, aggregateType, aggregateID, eventID, at, n)
}

// Lane reads the first n events that wait in an ordering key, in turn. The first is the head; a
// dead one parks the others.
func (o *Outbox) Lane(ctx context.Context, key string, n int) ([]Event, error) {
	return Rows[Event](ctx, o.DB, "read the events of an ordering key", selectLane, key, n)
}

// Parked returns the ids of those events that wait behind a dead one of their ordering key.
func (o *Outbox) Parked(ctx context.Context, events []Event) (parked []string, err error) {
	var ids []string
	for _, e := range events {
		if e.OrderingKey != nil && e.PublishedAt == nil && e.DeadAt == nil {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return Column[string](ctx, o.DB, "find parked events", selectParked, ids)
}

// Overtaken counts those of the events of whose aggregate a later event is published already.
func (o *Outbox) Overtaken(ctx context.Context, ids []string) (int64, error) {
	return One[int64](ctx, o.DB, "count overtaken events", countOvertaken, ids)
}

// EventContent reads what an event carries. ErrNotFound when it is not there.
func (o *Outbox) EventContent(ctx context.Context, id string) (Content, error) {
	return ScanContent(o.DB.QueryRow(ctx, selectContent, id))
}

// ScanContent reads a row of payload_json and headers, both as text. ErrNotFound when there is
// none.
func ScanContent(row pgx.Row) (c Content, err error) {
	var payload string
	var headers *string
	err = row.Scan(&payload, &headers)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return c, ErrNotFound
	case err != nil:
		return c, fmt.Errorf("read payload: %w", err)
	case headers != nil:
		c.Headers = json.RawMessage(*headers)
	}
	c.Payload = json.RawMessage(payload)
	return c, nil
}

// CheckTables returns an error when the database lacks a table that publishing needs.
func CheckTables(ctx context.Context, db DB) error {
	rows, err := db.Query(ctx, `SELECT FROM outbox_events, outbox_dlq, outbox_publishers LIMIT 0`)
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}
