package dlq

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
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
	// OrderingKey is the event's. Blocks counts the events that wait for this one to be replayed or
	// discarded, up to BlocksBound and one more.
	OrderingKey *string `json:"orderingKey" db:"ordering_key"`
	Blocks      int64   `json:"blocks" db:"blocks"`
}

// BlocksBound is where counting the events behind a dead one stops: more than that is enough to
// know.
const BlocksBound = 1000

// Entries reads dead letters by their own ids, in the order given. Ids that are gone are left out.
func (o *Outbox) Entries(ctx context.Context, ids []string) ([]Entry, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return outbox.Rows[Entry](ctx, o.DB, "read dead letters", selectEntries, ids)
}

// Content reads what the event of one dead letter carried when it died. outbox.ErrNotFound when it
// is gone.
func (o *Outbox) Content(ctx context.Context, id string) (outbox.Content, error) {
	return outbox.ScanContent(o.DB.QueryRow(ctx, selectEntryContent, id))
}

// Resolve finds the dead letters behind ids, each of which may be a dead letter's own or an
// event's. Of an event's several dead letters the newest in state prefer is meant, or the newest at
// all. A Target without ID was not found.
func (o *Outbox) Resolve(ctx context.Context, ids []string, prefer string) ([]Target, error) {
	return outbox.Rows[Target](ctx, o.DB, "look up dead letters", resolveEntries, ids, prefer)
}

// Deaths are an event's dead letters, oldest first.
func (o *Outbox) Deaths(ctx context.Context, eventID string) ([]Entry, error) {
	return outbox.Rows[Entry](ctx, o.DB, "read the event's deaths", selectEventEntries, eventID)
}

// DeadLetter reads a dead letter by its id or its event's. Of an event with several, the newest
// open one is meant, or else the newest.
func (o *Outbox) DeadLetter(ctx context.Context, id string) (Entry, error) {
	id, err := o.Complete(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	targets, err := o.Resolve(ctx, []string{id}, StateOpen)
	if err != nil {
		return Entry{}, err
	}
	if targets[0].ID == "" {
		return Entry{}, fault.Hint(fault.NotFoundf("no dead letter %s, and no dead letter of an event with that id", id),
			"outboxctl why %s tells what became of an event", id)
	}
	entries, err := o.Entries(ctx, []string{targets[0].ID})
	if err != nil {
		return Entry{}, err
	}
	if len(entries) == 0 {
		return Entry{}, fault.NotFoundf("dead letter %s has just been removed", id)
	}
	return entries[0], nil
}
