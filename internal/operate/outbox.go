package operate

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// Outbox is one installation, as an operator works with it.
type Outbox struct {
	// DB is the database. A face that only looks may bring one that only reads.
	DB dlq.DB
	// Host is where the database was reached, for prompts and plans.
	Host string
	// Pool is the same database, for the use case that holds a connection beside its work (Cleanup); nil where that is not
	// offered.
	Pool *pgxpool.Pool
	// Registry is the catalogue of event types.
	Registry *registry.Registry
	// Keeper reads the consumers' marks in Redis; nil when no Redis is configured.
	Keeper *idem.Keeper
}

// store reads and changes dead letters.
func (o *Outbox) store() *dlq.Store { return dlq.NewStore(o.DB) }

// events reads events.
func (o *Outbox) events() *outbox.Store { return outbox.NewStore(o.DB) }

// Now is the database's clock. "Two hours ago" counts from it: the operator's machine may be minutes off.
func (o *Outbox) Now(ctx context.Context) (time.Time, error) {
	now, err := o.store().Now(ctx)
	return now, fault.Database(err)
}
