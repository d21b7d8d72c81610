package outboxtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

// Shape is one of the sets of types that the columns of an outbox may have.
type Shape struct {
	Name string
	// Types is what a fresh database is asked for; empty: the table is there already.
	Types string
	// Type and ID are the columns' types in a table that is there already.
	Type, ID string
}

// Shapes lists the sets of types that are tested.
func Shapes() []Shape {
	return []Shape{
		{Name: "enum and uuid", Types: migrate.TypesEnum},
		{Name: "text and text", Types: migrate.TypesText},
		{Name: "varchar and varchar", Type: "varchar(100)", ID: "varchar(100)"},
		{Name: "text and bigint", Type: "text", ID: "bigint"},
	}
}

// Integers reports whether aggregate ids are integers.
func (s Shape) Integers() bool { return s.ID == "bigint" }

// AggregateID is the id of the nth aggregate, as text.
func (s Shape) AggregateID(n int) string {
	if s.Integers() {
		return fmt.Sprint(1000 + n)
	}
	return fmt.Sprintf("018f3f6e-0000-7000-8000-%012d", n)
}

// Prepare brings an empty database to the point where it is to be migrated.
func (s Shape) Prepare(t testing.TB, db *Database) {
	t.Helper()
	if s.Types != "" {
		return
	}
	_, err := db.Pool.Exec(context.Background(), strings.NewReplacer("TYPE", s.Type, "ID", s.ID).Replace(`CREATE TABLE outbox_events (
		id uuid DEFAULT gen_random_uuid() PRIMARY KEY, event_type TYPE NOT NULL, aggregate_type TYPE NOT NULL, aggregate_id ID NOT NULL,
		payload_json jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT clock_timestamp(), published_at timestamptz,
		attempt_count integer NOT NULL DEFAULT 0, last_error text)`))
	require.NoError(t, err)
}

// ShapedDB returns a fresh, fully migrated database of a shape.
func ShapedDB(t testing.TB, s Shape) *Database {
	t.Helper()
	db := EmptyDB(t)
	s.Prepare(t, db)
	_, err := migrate.Up(context.Background(), db.Pool, migrate.Options{Types: s.Types})
	require.NoError(t, err)
	return db
}
