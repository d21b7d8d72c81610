package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// Event is a message whose attributes are usable. Its body is the handler's to
// read.
type Event struct {
	ID          uuid.UUID
	Type        string
	AggregateID string
	CreatedAt   time.Time // zero when the attribute is missing
	// OrderingKey is what the event keeps its order in; empty for most.
	OrderingKey string
	Body        []byte
}

// Handler applies one event. It returns ErrApplied when the effect was there
// already, and an error that wraps ErrMalformed when trying again is useless.
type Handler func(ctx context.Context, e Event) error

var (
	// ErrApplied means the event's effect was there although Redis did not know
	// it. The message counts as a duplicate and Redis is told again.
	ErrApplied = errors.New("event was applied before")

	// ErrMalformed means no redelivery can help. Errors that wrap it name the
	// field and never show a value.
	ErrMalformed = errors.New("malformed message")
)

// parseEvent reads the attributes.
func parseEvent(attrs map[string]string, body []byte) (Event, error) {
	id, err := wire.ParseID(attrs[consume.AttrEventID])
	if err != nil {
		return Event{}, fmt.Errorf("%w: attribute %s %w", ErrMalformed, consume.AttrEventID, err)
	}
	if attrs[consume.AttrEventType] == "" {
		return Event{}, fmt.Errorf("%w: attribute %s is missing", ErrMalformed, consume.AttrEventType)
	}
	e := Event{ID: id, Type: attrs[consume.AttrEventType], AggregateID: attrs[consume.AttrAggregateID], Body: body}
	// The time is for the lag metric only; a message without it is still good.
	e.CreatedAt, _ = time.Parse(time.RFC3339Nano, attrs[consume.AttrCreatedAt])
	return e, nil
}
