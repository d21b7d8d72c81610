package operate

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Outbox is one installation, as an operator works with it.
type Outbox struct {
	outbox.Outbox
	// Pool is the same database, for the use case that holds a connection beside its work (Cleanup); nil where that is not
	// offered.
	Pool *pgxpool.Pool
	// Keeper reads the consumers' marks in Redis; nil when no Redis is configured.
	Keeper *idem.Keeper
}

// New returns the installation that a database holds.
func New(db outbox.Database, types outbox.Catalogue) *Outbox {
	return &Outbox{Outbox: outbox.Outbox{DB: db, Registry: types}}
}

// store reads and changes dead letters.
func (o *Outbox) store() *dlq.Store { return dlq.NewStore(o.DB) }
