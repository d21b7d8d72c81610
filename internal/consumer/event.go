package consumer

import (
	"context"
	"errors"

	"github.com/outboxctl/outboxctl/consume"
)

// Event is a consume.Event with what Pub/Sub adds.
type Event struct {
	consume.Event
	// OrderingKey is what the event keeps its order in; empty for most.
	OrderingKey string
}

// Handler applies one event. It returns ErrApplied when the effect was there
// already, and an error that wraps consume.ErrMalformed when trying again is useless.
type Handler func(ctx context.Context, e Event) error

// ErrApplied means the event's effect was there although Redis did not know
// it. The message counts as a duplicate and Redis is told again.
var ErrApplied = errors.New("event was applied before")
