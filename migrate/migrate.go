// Package migrate creates and updates the outbox tables from a Go program, as outboxctl migrate does: one run per
// database at a time, never queueing production behind a table lock, and safe to start again wherever it was killed.
package migrate

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

// What Options.Types may be.
const (
	// Text makes event types, aggregate types and aggregate ids text, for a catalogue of your own.
	Text = migrate.TypesText
	// Enum makes them enums of the built-in types and UUIDs.
	Enum = migrate.TypesEnum
)

// Options of a run. The zero value is usable.
type Options struct {
	// Types are those of the columns that Up creates in an empty database, Text or Enum; empty means Enum. Tables that
	// exist keep theirs: to ask for others is an error.
	Types string
	// Progress is told what happens, in words for a human, one call at a time; nil discards it.
	Progress func(message string)
}

func (o Options) internal() migrate.Options {
	return migrate.Options{Types: o.Types, Progress: o.Progress}
}

// Result is what a run did.
type Result = migrate.Result

// Adoption is what a run would find in a database and do to it.
type Adoption = migrate.Adoption

// Up applies what the database lacks. The pool's user has to own the outbox, or may create in its schema.
func Up(ctx context.Context, pool *pgxpool.Pool, opts Options) (Result, error) {
	return migrate.Up(ctx, pool, opts.internal())
}

// Plan returns what Up would find and do: whether an existing table can become the outbox, and how long that takes. It
// only reads. Adoption.Blocked lists what has to change first.
func Plan(ctx context.Context, pool *pgxpool.Pool, opts Options) (Adoption, error) {
	return migrate.Survey(ctx, pool, opts.internal())
}
