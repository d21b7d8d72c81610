package emit

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

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
