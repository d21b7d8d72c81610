package outbox

import (
	"encoding/json"
	"time"
)

// DefaultNamespace is the namespace of an event whose emitter names none.
const DefaultNamespace = "default"

// The states of an event. They are derived from its row, by the view outbox_event_status.
const (
	StatusPending    = "pending"
	StatusScheduled  = "scheduled"
	StatusProcessing = "processing"
	StatusPublished  = "published"
	StatusDead       = "dead"
)

// Statuses lists the states of an event in the order in which it goes through them.
func Statuses() []string {
	return []string{StatusScheduled, StatusPending, StatusProcessing, StatusPublished, StatusDead}
}

// Event is one row of outbox_events and its status, without what the event carries.
type Event struct {
	ID              string     `json:"id" db:"id"`
	Seq             int64      `json:"seq" db:"seq"`
	EventType       string     `json:"eventType" db:"event_type"`
	AggregateType   string     `json:"aggregateType" db:"aggregate_type"`
	AggregateID     string     `json:"aggregateId" db:"aggregate_id"`
	Status          string     `json:"status" db:"status"`
	Namespace       string     `json:"namespace" db:"namespace"`
	TenantID        *string    `json:"tenantId" db:"tenant_id"`
	DedupeKey       *string    `json:"dedupeKey" db:"dedupe_key"`
	AttemptCount    int        `json:"attemptCount" db:"attempt_count"`
	MaxAttempts     *int       `json:"maxAttempts" db:"max_attempts"`
	LastError       *string    `json:"lastError" db:"last_error"`
	CreatedAt       time.Time  `json:"createdAt" db:"created_at"`
	NextAttemptAt   time.Time  `json:"nextAttemptAt" db:"next_attempt_at"`
	LockedBy        *string    `json:"lockedBy" db:"locked_by"`
	LockedUntil     *time.Time `json:"lockedUntil" db:"locked_until"`
	PublishedAt     *time.Time `json:"publishedAt" db:"published_at"`
	DeadAt          *time.Time `json:"deadAt" db:"dead_at"`
	BrokerMessageID *string    `json:"brokerMessageId" db:"broker_message_id"`
	// OrderingKey is what the event keeps its order in. PassedAt is when it was discarded, so that its
	// key goes on.
	OrderingKey *string    `json:"orderingKey" db:"ordering_key"`
	PassedAt    *time.Time `json:"passedAt" db:"passed_at"`
	// DeliverAt is from when on it is to be published; nil: from the start.
	DeliverAt *time.Time `json:"deliverAt" db:"deliver_at"`
	// TraceID is of the trace in which it was emitted; nil: it has none.
	TraceID *string `json:"traceId" db:"trace_id"`
	// ErasedAt is when what it carried was removed.
	ErasedAt *time.Time `json:"erasedAt" db:"erased_at"`
}

// Content is what an event carries. Headers is nil when it has none.
type Content struct {
	Payload json.RawMessage
	Headers json.RawMessage
}
