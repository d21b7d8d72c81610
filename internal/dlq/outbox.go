package dlq

import (
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Outbox is one installation, as an operator works with it.
type Outbox struct {
	idem.Outbox
}

// New returns the installation that a database holds.
func New(db outbox.Database, types outbox.Catalogue) *Outbox {
	return &Outbox{idem.Outbox{Outbox: outbox.Outbox{DB: db, Registry: types}}}
}

// store reads and changes dead letters.
func (o *Outbox) store() *Store { return NewStore(o.DB) }
