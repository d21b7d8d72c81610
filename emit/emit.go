// Package emit writes events to the outbox from Go, inside the caller's own
// transaction: the event exists if, and only if, the transaction commits.
//
//	tx, err := conn.Begin(ctx)
//	…change your own tables with tx…
//	result, err := emitter.Emit(ctx, tx, emit.Event{
//		Type:        "order.ready",
//		AggregateID: orderID,
//		Data:        OrderReady{Door: 7},
//	})
//	…
//	err = tx.Commit(ctx)
//
// Emit takes a pgx transaction and EmitSQL one of database/sql, so users of GORM,
// sqlx and the like can call it too. Both cost one round trip.
//
// An event that breaks a rule is refused before anything is sent: the error is ErrInvalid, its
// *InvalidError lists every field with its problem, and the transaction goes on unharmed. Any other
// error comes from the database; then the transaction is lost, as after every failed statement.
//
// Publishing is at least once. Consumers must be idempotent, and the id that Emit
// returns is the key to be idempotent by.
//
// New makes an Emitter of a catalogue of event types, which package catalogue reads from a file.
package emit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// Event is an event to be written.
type Event struct {
	// Type is the event type. Required; the catalogue must know it.
	Type string
	// AggregateID is the aggregate the event is about: a UUID, an integer or any other text of at
	// most 255 bytes, as the database stores ids. Required, unless the type is about no aggregate.
	AggregateID string
	// AggregateType may be left empty: the catalogue knows it. When set it must be the type's.
	AggregateType string
	// Data is the payload: anything that marshals to the JSON that the catalogue asks for, or
	// finished JSON as a json.RawMessage or []byte.
	// Required; an event without data carries json.RawMessage("{}").
	Data any
	// ID is the event's id. Leave it zero to have a version 7 UUID made. An id of
	// your own makes a repeated call recognise its event without a dedupe key.
	ID uuid.UUID
	// OccurredAt is when it happened; zero means now.
	OccurredAt time.Time
	// Actor is the person or service on whose behalf it happened; nil means none.
	Actor *Actor
	// DedupeKey makes a second event of the same namespace, type and key a no-op.
	// With a tenant it must start with the tenant's id and a slash.
	DedupeKey string
	// TenantID is the tenant the event belongs to; zero means none.
	TenantID uuid.UUID
	// Namespace separates applications that share an outbox; empty means "default".
	Namespace string
	// Headers become extra message attributes, such as traceparent.
	Headers map[string]string
	// MaxAttempts overrides the publisher's maximum for this event; 0 does not.
	MaxAttempts int
	// DeliverAt is when the event is published at the earliest; zero means at once.
	DeliverAt time.Time
	// OrderingKey puts the event behind all earlier ones of its namespace and key:
	// it is published once they are. Lock what the key stands for before you emit;
	// events of transactions that overlap have no order. Empty means what the
	// catalogue says: the order of the event's aggregate, or any.
	OrderingKey string
	// ByAggregate makes the event's aggregate, on its topic, the ordering key.
	ByAggregate bool
}

// Actor is the person or service on whose behalf an event happened.
type Actor struct {
	UserID  string `json:"userId"`
	StoreID string `json:"storeId,omitempty"`
	Role    string `json:"role,omitempty"`
}

// Result is what became of an event.
type Result struct {
	// ID is the event's id: that of the row just written or, when AlreadyEnqueued,
	// of the row that already had the dedupe key.
	ID uuid.UUID
	// AlreadyEnqueued reports that nothing was written.
	AlreadyEnqueued bool
}

// Typed emits events of one type, whose data is a T.
type Typed[T any] struct {
	emitter   *Emitter
	eventType string
}

// For returns the emitter of one event type:
//
//	ready := emit.For[OrderReady](emitter, "order.ready")
//	result, err := ready.Emit(ctx, tx, "42", OrderReady{Door: 7})
func For[T any](emitter *Emitter, eventType string) Typed[T] { return Typed[T]{emitter, eventType} }

// Event is the event that Emit writes, for a caller that sets more of it.
func (t Typed[T]) Event(aggregateID string, data T) Event {
	return Event{Type: t.eventType, AggregateID: aggregateID, Data: data}
}

// Emit writes one event in the caller's transaction, as Emitter.Emit does.
func (t Typed[T]) Emit(ctx context.Context, tx pgx.Tx, aggregateID string, data T) (Result, error) {
	return t.emitter.Emit(ctx, tx, t.Event(aggregateID, data))
}

// EmitSQL is Emit for a transaction of database/sql.
func (t Typed[T]) EmitSQL(ctx context.Context, tx *sql.Tx, aggregateID string, data T) (Result, error) {
	return t.emitter.EmitSQL(ctx, tx, t.Event(aggregateID, data))
}

// ErrInvalid is in the error of every event that was refused. errors.As finds the
// *InvalidError with the details.
var ErrInvalid = errors.New("invalid event")

// InvalidError lists everything that is wrong with a refused event. Nothing was sent
// to the database, so the caller's transaction is unharmed.
type InvalidError struct {
	// Index is the event's position in the call that emitted several.
	Index    int
	Problems wire.Problems
	// TooLarge is set when one of the problems is a limit of the broker.
	TooLarge *wire.TooLargeError
}

func (e *InvalidError) Error() string {
	return ErrInvalid.Error() + ": " + e.Problems.String()
}

// Is makes every InvalidError an ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns TooLarge, if it is set.
func (e *InvalidError) Unwrap() error {
	if e.TooLarge == nil {
		return nil
	}
	return e.TooLarge
}

func (e *InvalidError) add(field, format string, args ...any) {
	e.Problems = append(e.Problems, wire.FieldProblem{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// ErrNotMigrated is in the error when the database has no outbox: outboxctl migrate creates it.
var ErrNotMigrated = errors.New("the database has no outbox, or one of another version")

// emitFailed translates a database error.
func emitFailed(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "42883", "42P01", "42703", "3F000": // undefined function, table, column; invalid schema name
			return fmt.Errorf("emit events: %w (%w)", ErrNotMigrated, err)
		}
		if pg.Hint != "" {
			return fmt.Errorf("emit events: %w (%s)", err, pg.Hint)
		}
	}
	return fmt.Errorf("emit events: %w", err)
}
