package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DB is the database: a pool, a connection or a transaction.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Store reads events.
type Store struct{ db DB }

// NewStore returns a Store on db.
func NewStore(db DB) *Store { return &Store{db} }

// ErrNotFound means that no row has the id asked for.
var ErrNotFound = errors.New("not found")

// Event reads one event. ErrNotFound when it is not there.
func (s *Store) Event(ctx context.Context, id string) (Event, error) {
	events, err := s.Events(ctx, []string{id})
	if err != nil {
		return Event{}, err
	}
	if len(events) == 0 {
		return Event{}, ErrNotFound
	}
	return events[0], nil
}

// Events reads events by id, in the order given. Ids that are not there are left out.
func (s *Store) Events(ctx context.Context, ids []string) ([]Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.events(ctx, selectEvents, ids)
}

// Neighbours reads the events of the same aggregate around one: up to n before it and n after it, oldest first, itself not
// among them. An event that is gone is taken to have been emitted at.
func (s *Store) Neighbours(ctx context.Context, aggregateType, aggregateID, eventID string, at time.Time, n int) ([]Event, error) {
	return s.events(ctx, selectNeighbours, aggregateType, aggregateID, eventID, at, n)
}

// ByKey finds the event that was emitted with a dedupe key, the newest if there are several, or among the newest published
// events the one that the broker gave an id. ErrNotFound when there is none.
func (s *Store) ByKey(ctx context.Context, key string, newest int) (id string, err error) {
	err = s.db.QueryRow(ctx, selectByDedupeKey, key).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.db.QueryRow(ctx, selectByBrokerID, key, newest).Scan(&id)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", ErrNotFound
	case err != nil:
		return "", fmt.Errorf("find the event of a key: %w", err)
	}
	return id, nil
}

// Overtaken counts those of the events of whose aggregate a later event is published already.
func (s *Store) Overtaken(ctx context.Context, ids []string) (n int64, err error) {
	if err := s.db.QueryRow(ctx, countOvertaken, ids).Scan(&n); err != nil {
		return 0, fmt.Errorf("count overtaken events: %w", err)
	}
	return n, nil
}

func (s *Store) events(ctx context.Context, sql string, args ...any) ([]Event, error) {
	rows, err := s.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByName[Event])
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

// Content reads what an event carries. ErrNotFound when it is not there.
func (s *Store) Content(ctx context.Context, id string) (Content, error) {
	return ScanContent(s.db.QueryRow(ctx, selectContent, id))
}

// ScanContent reads a row of payload_json and headers, both as text. ErrNotFound when there is none.
func ScanContent(row pgx.Row) (Content, error) {
	var payload string
	var headers *string
	err := row.Scan(&payload, &headers)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Content{}, ErrNotFound
	case err != nil:
		return Content{}, fmt.Errorf("read payload: %w", err)
	case headers == nil:
		return Content{Payload: json.RawMessage(payload)}, nil
	default:
		return Content{Payload: json.RawMessage(payload), Headers: json.RawMessage(*headers)}, nil
	}
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
