// Package emit writes events to the outbox from Go, inside the caller's own
// transaction: the event exists if, and only if, the transaction commits.
//
//	tx, err := conn.Begin(ctx)
//	…change your own tables with tx…
//	result, err := emit.Emit(ctx, tx, emit.Event{
//		Type:        emit.TypeLicenseStatusChanged,
//		AggregateID: licenseID,
//		Data:        emit.LicenseStatusChanged{LicenseID: licenseID, StoreID: storeID, Status: emit.LicenseVerified},
//	})
//	…
//	err = tx.Commit(ctx)
//
// Emit takes a pgx transaction and EmitSQL one of database/sql, so users of GORM,
// sqlx and the like can call it too. Both cost one round trip.
//
// An event that breaks a rule is refused before anything is sent: the error is
// ErrInvalid, its *InvalidError lists every field with its problem, and the
// transaction goes on unharmed. Any other error comes from the database; then the
// transaction is lost, as after every failed statement.
//
// Publishing is at least once. Consumers must be idempotent, and the id that Emit
// returns is the key to be idempotent by.
package emit

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// Event is an event to be written.
type Event struct {
	// Type is the event type, one of the Type constants. Required.
	Type string
	// AggregateID is the aggregate the event is about. Required.
	AggregateID uuid.UUID
	// AggregateType may be left empty: the catalogue knows it. When set it must be
	// the type's.
	AggregateType string
	// Data is the payload: one of the payload structs of this package, anything
	// else that marshals to the same JSON, or finished JSON as a json.RawMessage
	// or []byte. Required; an event without data carries json.RawMessage("{}").
	Data any
	// ID is the event's id. Leave it zero to have a version 7 UUID made. An id of
	// your own makes a repeated call recognise its event without a dedupe key.
	ID uuid.UUID
	// OccurredAt is when it happened; zero means now.
	OccurredAt time.Time
	// Actor says on whose behalf it happened, if anybody's.
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
}

type (
	// Actor says on whose behalf an event happened.
	Actor = outbox.Actor
	// Result says what became of an event: its id, and whether an event with the
	// same dedupe key was there before, in which case the id is that one's.
	Result = outbox.EmitResult
	// InvalidError lists everything that is wrong with a refused event.
	InvalidError = outbox.InvalidError
	// FieldProblem is one entry of an InvalidError.
	FieldProblem = outbox.FieldProblem
	// TooLargeError is inside an InvalidError when a limit of the broker is passed.
	TooLargeError = outbox.TooLargeError
)

var (
	// ErrInvalid is what errors.Is finds in every refusal.
	ErrInvalid = outbox.ErrInvalid
	// ErrNotMigrated is what errors.Is finds when the database has no outbox:
	// outboxctl migrate creates it.
	ErrNotMigrated = outbox.ErrNotMigrated
)

// Emit writes one event in tx, in one round trip.
func Emit(ctx context.Context, tx pgx.Tx, event Event) (Result, error) {
	return emitter().Emit(ctx, tx, outbox.EmitParams(event))
}

// EmitAll writes events in tx, in order and in one round trip per 500. All are
// checked before the first is sent; InvalidError.Index says which one was refused.
func EmitAll(ctx context.Context, tx pgx.Tx, events []Event) ([]Result, error) { //nolint:revive // the plural of Emit
	return emitter().EmitAll(ctx, tx, params(events))
}

// EmitSQL is Emit for a transaction of database/sql with any PostgreSQL driver.
func EmitSQL(ctx context.Context, tx *sql.Tx, event Event) (Result, error) { //nolint:revive // Emit, for database/sql
	return emitter().EmitSQL(ctx, tx, outbox.EmitParams(event))
}

// EmitAllSQL is EmitAll for a transaction of database/sql.
func EmitAllSQL(ctx context.Context, tx *sql.Tx, events []Event) ([]Result, error) { //nolint:revive // EmitAll, for database/sql
	return emitter().EmitAllSQL(ctx, tx, params(events))
}

// Validate checks an event by the same rules, without a database.
func Validate(event Event) error {
	_, err := emitter().Prepare(outbox.EmitParams(event))
	return err
}

// emitter is made anew for each call: it is small, and a package without state has
// no order of initialisation to get wrong.
func emitter() *outbox.Emitter { return outbox.NewEmitter(registry.New(), nil) }

func params(events []Event) []outbox.EmitParams {
	all := make([]outbox.EmitParams, len(events))
	for i, e := range events {
		all[i] = outbox.EmitParams(e)
	}
	return all
}
