package operate

import (
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Outbox is one installation, as an operator works with it.
type Outbox struct {
	dlq.Outbox
}

// New returns the installation that a database holds.
func New(db outbox.Database, types outbox.Catalogue) *Outbox {
	return &Outbox{*dlq.New(db, types)}
}

// store reads and changes dead letters.
func (o *Outbox) store() *dlq.Store { return dlq.NewStore(o.DB) }
