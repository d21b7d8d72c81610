package dlq

import (
	"context"
	"fmt"

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

// Identity identifies a database: a copy made by dump and restore is another database, a renamed
// one is the same.
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
func (o *Outbox) Identity(ctx context.Context) (Identity, error) {
	id := Identity{Host: o.Host}
	if err := o.DB.QueryRow(ctx, selectIdentity).Scan(&id.SystemIdentifier, &id.OID, &id.Name); err != nil {
		return Identity{}, fmt.Errorf("identify the database: %w", err)
	}
	return id, nil
}
