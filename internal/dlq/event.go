package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The states of an event, derived from its row.
const (
	StatusPending    = "pending"
	StatusProcessing = "processing"
	StatusPublished  = "published"
	StatusDead       = "dead"
)

// Event is one event's row without what it carries.
type Event struct {
	ID              string     `json:"id"`
	Seq             int64      `json:"seq"`
	EventType       string     `json:"eventType"`
	AggregateType   string     `json:"aggregateType"`
	AggregateID     string     `json:"aggregateId"`
	Status          string     `json:"status"`
	Namespace       string     `json:"namespace"`
	TenantID        *string    `json:"tenantId"`
	DedupeKey       *string    `json:"dedupeKey"`
	AttemptCount    int        `json:"attemptCount"`
	MaxAttempts     *int       `json:"maxAttempts"`
	LastError       *string    `json:"lastError"`
	CreatedAt       time.Time  `json:"createdAt"`
	NextAttemptAt   time.Time  `json:"nextAttemptAt"`
	LockedBy        *string    `json:"lockedBy"`
	LockedUntil     *time.Time `json:"lockedUntil"`
	PublishedAt     *time.Time `json:"publishedAt"`
	DeadAt          *time.Time `json:"deadAt"`
	BrokerMessageID *string    `json:"brokerMessageId"`
	UpdatedAt       time.Time  `json:"updatedAt"`
}

func scanEvent(row pgx.CollectableRow) (Event, error) {
	var e Event
	err := row.Scan(&e.ID, &e.Seq, &e.EventType, &e.AggregateType, &e.AggregateID, &e.Status, &e.Namespace, &e.TenantID,
		&e.DedupeKey, &e.AttemptCount, &e.MaxAttempts, &e.LastError, &e.CreatedAt, &e.NextAttemptAt, &e.LockedBy,
		&e.LockedUntil, &e.PublishedAt, &e.DeadAt, &e.BrokerMessageID, &e.UpdatedAt)
	return e, err
}

// Event reads one event. ErrNotFound when it is not there.
func (s *Store) Event(ctx context.Context, id string) (Event, error) {
	rows, err := s.db.Query(ctx, selectEvent, id)
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEvent)
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, ErrNotFound
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}

// Events reads events by id, in the order given.
func (s *Store) Events(ctx context.Context, ids []string) ([]Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	events, err := collect(ctx, s.db, scanEvent, selectEvents, ids)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

// EventContent reads what an event carries.
func (s *Store) EventContent(ctx context.Context, id string) (Content, error) {
	return s.content(ctx, selectEventContent, id)
}

// EventID returns the id of the event that id means: an event's own, or that of
// the event behind a dead letter. An unknown id is returned as it is.
func (s *Store) EventID(ctx context.Context, id string) (string, error) {
	var event string
	if err := s.db.QueryRow(ctx, selectEventID, id).Scan(&event); err != nil {
		return "", fmt.Errorf("look up event: %w", err)
	}
	return event, nil
}

// ResolveEvents finds the events behind ids. At is when each was published.
func (s *Store) ResolveEvents(ctx context.Context, ids []string) ([]Target, error) {
	targets, err := collect(ctx, s.db, func(row pgx.CollectableRow) (Target, error) {
		var t Target
		var id *string
		var at *time.Time
		err := row.Scan(&t.Given, &id, &at)
		if id != nil {
			t.ID, t.EventID = *id, *id
		}
		if at != nil {
			t.At = *at
		}
		return t, err
	}, resolveEvents, ids)
	if err != nil {
		return nil, fmt.Errorf("look up events: %w", err)
	}
	return targets, nil
}

// Neighbours reads the events of the same aggregate around one: up to n before
// it and n after it, oldest first, itself not among them.
func (s *Store) Neighbours(ctx context.Context, aggregateType, aggregateID, eventID string, at time.Time, n int) ([]Event, error) {
	events, err := collect(ctx, s.db, scanEvent, selectNeighbours, aggregateType, aggregateID, eventID, at, n)
	if err != nil {
		return nil, fmt.Errorf("read the aggregate's events: %w", err)
	}
	return events, nil
}
