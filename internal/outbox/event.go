package outbox

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Event is one row of outbox_events, column by column.
type Event struct {
	ID              uuid.UUID       `db:"id"`
	EventType       string          `db:"event_type"`
	AggregateType   string          `db:"aggregate_type"`
	AggregateID     uuid.UUID       `db:"aggregate_id"`
	PayloadJSON     json.RawMessage `db:"payload_json"`
	CreatedAt       time.Time       `db:"created_at"`
	PublishedAt     *time.Time      `db:"published_at"`
	AttemptCount    int             `db:"attempt_count"`
	LastError       *string         `db:"last_error"`
	Namespace       string          `db:"namespace"`
	TenantID        *uuid.UUID      `db:"tenant_id"`
	DedupeKey       *string         `db:"dedupe_key"`
	MaxAttempts     *int            `db:"max_attempts"`
	Headers         json.RawMessage `db:"headers"`
	NextAttemptAt   time.Time       `db:"next_attempt_at"`
	LockedBy        *uuid.UUID      `db:"locked_by"`
	LockedUntil     *time.Time      `db:"locked_until"`
	DeadAt          *time.Time      `db:"dead_at"`
	BrokerMessageID *string         `db:"broker_message_id"`
	UpdatedAt       time.Time       `db:"updated_at"`
	Seq             int64           `db:"seq"`
}
