package consume

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/outboxctl/outboxctl/internal/idem"
)

// The attributes of every message outboxctl publishes.
const (
	AttrEventID       = "event_id"
	AttrEventType     = "event_type"
	AttrAggregateType = "aggregate_type"
	AttrAggregateID   = "aggregate_id"
	AttrCreatedAt     = "created_at"
)

// Errors that Process and Handle wrap.
var (
	// ErrInProgress: another delivery of the event is being handled.
	ErrInProgress = idem.ErrInProgress
	// ErrUnavailable: Redis gave no answer.
	ErrUnavailable = idem.ErrUnavailable
	// ErrLeaseLost is the cause of a handler's cancelled context when another
	// delivery may have taken the event over.
	ErrLeaseLost = idem.ErrLeaseLost
	// ErrEventID: the event id is missing or not a UUID.
	ErrEventID = errors.New("event id is not a uuid")
)

// Outcome is what became of one delivery.
type Outcome = idem.Outcome

// The outcomes. Outcome.Ack says which of them finish the message.
const (
	Processed         = idem.Processed
	ProcessedUnmarked = idem.ProcessedUnmarked
	Duplicate         = idem.Duplicate
	InProgress        = idem.InProgress
	Failed            = idem.Failed
	Unavailable       = idem.Unavailable
	Invalid           = idem.Invalid
)

// Message is the part of a broker's message that Handle settles. The messages
// of cloud.google.com/go/pubsub satisfy it.
type Message interface {
	Ack()
	Nack()
}

// Options of a Guard. The zero value means the defaults.
type Options struct {
	// TTL is how long an event is remembered (default 720h). It must outlast
	// every redelivery and replay, or an old event runs again.
	TTL time.Duration
	// Lease is how long an event stays taken after its worker died (default
	// 30s). It is extended while the handler runs.
	Lease time.Duration
	// Timeout bounds each call to Redis (default 2s).
	Timeout time.Duration
}

// Guard runs handlers once per event for one consumer. It is safe for
// concurrent use.
type Guard struct {
	keeper   *idem.Keeper
	consumer string
	outage   atomic.Int32 // answers Redis has owed us in a row
}

// NewClient opens a Redis client that notices an absent server within a second,
// where the library's defaults take several. Any other client works too.
func NewClient(url string) (*redis.Client, error) { return idem.NewClient(url) }

// New returns the guard of the consumer with that name. Two consumers that
// should both see an event need two names; the instances of one share one. The
// client stays the caller's to close.
func New(rdb redis.UniversalClient, consumer string, opts Options) (*Guard, error) {
	if err := idem.ValidateConsumer(consumer); err != nil {
		return nil, err
	}
	keeper, err := idem.New(rdb, idem.Config{TTL: opts.TTL, Lease: opts.Lease, Timeout: opts.Timeout})
	if err != nil {
		return nil, err
	}
	return &Guard{keeper: keeper, consumer: consumer}, nil
}

// Check asks the server whether the guard can work on it, and makes the
// consumer's name known to operators. Call it at start. The warnings are worth
// a log line: settings under which Redis may forget.
func (g *Guard) Check(ctx context.Context) (warnings []string, err error) {
	report, err := g.keeper.Check(ctx)
	if err != nil {
		return nil, err
	}
	return report.Warnings, g.keeper.Announce(ctx, g.consumer)
}

// Process runs handler unless the event was handled before, and says what
// became of it. Acknowledge the message when Outcome.Ack is true, otherwise
// have it delivered again. The error explains every outcome that is not
// Processed or Duplicate.
//
// The handler's context is cancelled when the event's lease is lost; a handler
// that stops then cannot overlap with the delivery that took over.
func (g *Guard) Process(ctx context.Context, eventID string, handler func(context.Context) error) (Outcome, error) {
	id, err := uuid.Parse(eventID)
	if err != nil {
		return Invalid, fmt.Errorf("%w: %w", ErrEventID, err)
	}
	return g.keeper.Process(ctx, g.consumer, id, handler)
}

// Handle is Process followed by the message's Ack or Nack. While another
// delivery of the event is at work it waits and asks again, for a lease at most:
// when that one's worker was killed, a message nacked again and again would be
// dead-lettered before the lease is over. A nack that should not come back at
// once waits a little, too; cancelling ctx ends every wait.
func (g *Guard) Handle(ctx context.Context, msg Message, eventID string, handler func(context.Context) error) (Outcome, error) {
	outcome, err := g.Process(ctx, eventID, handler)
	for held := g.heldUntil(); outcome == InProgress && g.await(ctx, held); {
		outcome, err = g.Process(ctx, eventID, handler)
	}
	if outcome.Ack() {
		g.outage.Store(0)
		msg.Ack()
		return outcome, err
	}
	g.pause(ctx, outcome)
	msg.Nack()
	return outcome, err
}

// CheckAndMarkProcessed marks the event and reports whether it was marked
// before. It marks before the effect: delete the mark when the effect fails,
// and know that a crash in between loses the event. Prefer Process.
func (g *Guard) CheckAndMarkProcessed(ctx context.Context, eventID uuid.UUID, ttl time.Duration) (alreadyProcessed bool, err error) {
	return g.keeper.CheckAndMarkProcessed(ctx, g.consumer, eventID, ttl)
}

// Delete forgets the event, so that its next delivery is handled again.
func (g *Guard) Delete(ctx context.Context, eventID uuid.UUID) error {
	return g.keeper.Delete(ctx, g.consumer, eventID)
}
