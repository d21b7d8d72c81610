package packfinderz

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit"
)

// Emit writes one event of this catalogue in tx, in one round trip.
func Emit(ctx context.Context, tx pgx.Tx, event emit.Event) (emit.Result, error) {
	return emitter().Emit(ctx, tx, event)
}

// EmitAll writes events in tx, in order and in one round trip per 500. All are
// checked before the first is sent; InvalidError.Index is the one that was refused.
func EmitAll(ctx context.Context, tx pgx.Tx, events []emit.Event) ([]emit.Result, error) {
	return emitter().EmitAll(ctx, tx, events)
}

// EmitSQL is Emit for a transaction of database/sql with any PostgreSQL driver.
func EmitSQL(ctx context.Context, tx *sql.Tx, event emit.Event) (emit.Result, error) {
	return emitter().EmitSQL(ctx, tx, event)
}

// EmitAllSQL is EmitAll for a transaction of database/sql.
func EmitAllSQL(ctx context.Context, tx *sql.Tx, events []emit.Event) ([]emit.Result, error) {
	return emitter().EmitAllSQL(ctx, tx, events)
}

// Validate checks an event by the same rules, without a database.
func Validate(event emit.Event) error { return emitter().Validate(event) }

func emitter() *emit.Emitter { return emit.New(Catalogue{}) }
