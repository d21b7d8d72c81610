package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The states of a dead letter.
const (
	StateOpen      = "open"
	StateReplayed  = "replayed"
	StateDiscarded = "discarded"
)

// Entry is one dead letter without what the event carried.
type Entry struct {
	ID             string     `json:"id"`
	EventID        string     `json:"eventId"`
	EventType      string     `json:"eventType"`
	AggregateType  string     `json:"aggregateType"`
	AggregateID    string     `json:"aggregateId"`
	Reason         string     `json:"reason"`
	ErrorMessage   string     `json:"errorMessage"`
	AttemptCount   int        `json:"attemptCount"`
	FailedAt       time.Time  `json:"failedAt"`
	Namespace      string     `json:"namespace"`
	TenantID       *string    `json:"tenantId"`
	Topic          *string    `json:"topic"`
	Fingerprint    *string    `json:"fingerprint"`
	EventCreatedAt *time.Time `json:"eventCreatedAt"`
	State          string     `json:"state"`
	StateChangedAt *time.Time `json:"stateChangedAt"`
}

func scanEntry(row pgx.CollectableRow) (Entry, error) {
	var e Entry
	err := row.Scan(&e.ID, &e.EventID, &e.EventType, &e.AggregateType, &e.AggregateID, &e.Reason, &e.ErrorMessage,
		&e.AttemptCount, &e.FailedAt, &e.Namespace, &e.TenantID, &e.Topic, &e.Fingerprint, &e.EventCreatedAt,
		&e.State, &e.StateChangedAt)
	return e, err
}

// Content is what an event carries.
type Content struct {
	Payload json.RawMessage
	Headers json.RawMessage
}

// Entries reads dead letters by their own ids, in the order given. Ids that
// are gone are left out.
func (s *Store) Entries(ctx context.Context, ids []string) ([]Entry, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	entries, err := collect(ctx, s.db, scanEntry, selectEntries, ids)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return entries, nil
}

// Content reads what the event of one dead letter carried when it died.
func (s *Store) Content(ctx context.Context, id string) (Content, error) {
	return s.content(ctx, selectEntryContent, id)
}

func (s *Store) content(ctx context.Context, sql, id string) (Content, error) {
	var payload string
	var headers *string
	err := s.db.QueryRow(ctx, sql, id).Scan(&payload, &headers)
	if errors.Is(err, pgx.ErrNoRows) {
		return Content{}, ErrNotFound
	}
	if err != nil {
		return Content{}, fmt.Errorf("read payload: %w", err)
	}
	c := Content{Payload: json.RawMessage(payload)}
	if headers != nil {
		c.Headers = json.RawMessage(*headers)
	}
	return c, nil
}

// Target is one dead letter, or one event, that something is to be done to.
type Target struct {
	// Given is the id the operator named; empty when the set came from a filter.
	Given string
	// ID is the dead letter's id, or the event's when events are worked on.
	ID      string
	EventID string
	// At orders targets: when the dead letter was written, or when the event was published.
	At time.Time
	// Hash is the payload's, where a plan recorded it.
	Hash string
}

// Resolve finds the dead letters behind ids, each of which may be a dead
// letter's own or an event's. Of an event's several dead letters the newest in
// state prefer is meant, or the newest at all. A Target without ID was not found.
func (s *Store) Resolve(ctx context.Context, ids []string, prefer string) ([]Target, error) {
	targets, err := collect(ctx, s.db, func(row pgx.CollectableRow) (Target, error) {
		var t Target
		var id, event *string
		var at *time.Time
		err := row.Scan(&t.Given, &id, &event, &at)
		if id != nil {
			t.ID, t.EventID, t.At = *id, *event, *at
		}
		return t, err
	}, resolveEntries, ids, prefer)
	if err != nil {
		return nil, fmt.Errorf("look up dead letters: %w", err)
	}
	return targets, nil
}

// Deaths are an event's dead letters, oldest first.
func (s *Store) Deaths(ctx context.Context, eventID string) ([]Entry, error) {
	deaths, err := collect(ctx, s.db, scanEntry, selectEventEntries, eventID)
	if err != nil {
		return nil, fmt.Errorf("read the event's deaths: %w", err)
	}
	return deaths, nil
}
