package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
)

// AliveFor is how old a publisher's last heartbeat may be before it counts as gone. A dead
// publisher's leases end in about this time.
const AliveFor = 30 * time.Second

// Outbox is one installation, as an operator works with it.
type Outbox struct {
	// DB is the database. A face that only looks may bring one that only reads.
	DB Database
	// Host is where the database was reached, for prompts and plans.
	Host string
	// Registry is the catalogue of event types.
	Registry Catalogue
}

// Database is what use cases need of a connection pool.
type Database interface {
	DB
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Catalogue is what use cases ask of the catalogue of event types.
type Catalogue interface {
	emit.Catalogue
	// Names lists the names under which events are stored, former ones included.
	Names() Names
	EventTypes() []string
	TopicNames() []string
	Aggregates() []string
	// TopicOf returns the logical topic of an event type in a namespace; empty: there is no such type.
	TopicOf(namespace, eventType string) string
	// Find returns an event type by its present or a former name.
	Find(namespace, eventType string) (catalogue.Type, bool)
}

// Within is the installation as a transaction sees it.
func (o Outbox) Within(tx pgx.Tx) *Outbox {
	o.DB = Inside{tx}
	return &o
}

// Inside is a transaction as a database: what begins inside it is a part of it.
type Inside struct{ pgx.Tx }

// BeginTx begins a part of the transaction, which has its snapshot already.
func (t Inside) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) { return t.Begin(ctx) }

// Now is the database's clock. "Two hours ago" counts from it: the operator's machine may be
// minutes off.
func (o *Outbox) Now(ctx context.Context) (time.Time, error) {
	return One[time.Time](ctx, o.DB, "read the database's clock", "SELECT clock_timestamp()")
}
