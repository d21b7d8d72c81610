package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// The states of a dead letter.
const (
	StateOpen      = "open"
	StateReplayed  = "replayed"
	StateDiscarded = "discarded"
)

// Entry is one dead letter without what the event carried.
type Entry struct {
	ID             string     `json:"id" db:"id"`
	EventID        string     `json:"eventId" db:"event_id"`
	EventType      string     `json:"eventType" db:"event_type"`
	AggregateType  string     `json:"aggregateType" db:"aggregate_type"`
	AggregateID    string     `json:"aggregateId" db:"aggregate_id"`
	Reason         string     `json:"reason" db:"error_reason"`
	ErrorMessage   string     `json:"errorMessage" db:"error_message"`
	AttemptCount   int        `json:"attemptCount" db:"attempt_count"`
	FailedAt       time.Time  `json:"failedAt" db:"failed_at"`
	Namespace      string     `json:"namespace" db:"namespace"`
	TenantID       *string    `json:"tenantId" db:"tenant_id"`
	Topic          *string    `json:"topic" db:"topic"`
	Fingerprint    *string    `json:"fingerprint" db:"fingerprint"`
	EventCreatedAt *time.Time `json:"eventCreatedAt" db:"event_created_at"`
	State          string     `json:"state" db:"state"`
	StateChangedAt *time.Time `json:"stateChangedAt" db:"state_changed_at"`
	// CorrectedBy is the event that was emitted in its place.
	CorrectedBy *string `json:"correctedBy" db:"corrected_by"`
	// ErasedAt is when what the event carried was removed.
	ErasedAt *time.Time `json:"erasedAt" db:"erased_at"`
	// OrderingKey is the event's. Blocks counts the events that wait for this one to be replayed or discarded, up to
	// BlocksBound and one more.
	OrderingKey *string `json:"orderingKey" db:"ordering_key"`
	Blocks      int64   `json:"blocks" db:"blocks"`
}

// BlocksBound is where counting the events behind a dead one stops: more than that is enough to know.
const BlocksBound = 1000

// Entries reads dead letters by their own ids, in the order given. Ids that
// are gone are left out.
func (s *Store) Entries(ctx context.Context, ids []string) ([]Entry, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	entries, err := collect(ctx, s.db, pgx.RowToStructByName[Entry], selectEntries, ids)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return entries, nil
}

// Content reads what the event of one dead letter carried when it died. outbox.ErrNotFound when it is gone.
func (s *Store) Content(ctx context.Context, id string) (outbox.Content, error) {
	return outbox.ScanContent(s.db.QueryRow(ctx, selectEntryContent, id))
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
	// Discard: it is erased also when it waits to be published.
	Discard bool
	// AuditID is the audit row that the dead letter must still have; 0: any.
	AuditID int64
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
	deaths, err := collect(ctx, s.db, pgx.RowToStructByName[Entry], selectEventEntries, eventID)
	if err != nil {
		return nil, fmt.Errorf("read the event's deaths: %w", err)
	}
	return deaths, nil
}
