package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DB is the database: a pool, or one connection.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Store reads and changes dead letters, and has published events published again.
type Store struct {
	db DB
}

// NewStore returns a Store on db.
func NewStore(db DB) *Store { return &Store{db: db} }

// Now is the database's clock. Limits in time are taken from it, because the
// operator's machine may be minutes off.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := s.db.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}

// Identity identifies a database: a copy made by dump and restore is another
// database, a renamed one is the same.
type Identity struct {
	SystemIdentifier string `json:"systemIdentifier"`
	OID              uint32 `json:"oid"`
	Name             string `json:"name"`
	// Host is where the database was reached, for the reader; it does not identify it.
	Host string `json:"host,omitempty"`
}

// Place is where the database is, for a person: its name and its host.
func (i Identity) Place() string {
	if i.Host == "" {
		return i.Name
	}
	return i.Name + " on " + i.Host
}

func (i Identity) String() string {
	return fmt.Sprintf("%s (system %s)", i.Place(), i.SystemIdentifier)
}

// Same reports whether both name one database.
func (i Identity) Same(other Identity) bool {
	return i.SystemIdentifier == other.SystemIdentifier && i.OID == other.OID
}

// Identity reads which database this is.
func (s *Store) Identity(ctx context.Context) (Identity, error) {
	var id Identity
	err := s.db.QueryRow(ctx, selectIdentity).Scan(&id.SystemIdentifier, &id.OID, &id.Name)
	if err != nil {
		return Identity{}, fmt.Errorf("identify the database: %w", err)
	}
	return id, nil
}

// querier is a DB or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// collect reads all rows of a query with scan.
func collect[T any](ctx context.Context, db querier, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}
