package dispatch

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Catalogue is this publisher's knowledge of event types.
type Catalogue interface {
	// Describe returns what the catalogue says of an event type.
	Describe(namespace, eventType string) (wire.EventType, bool)
	// Check checks the data of an event. extra is how many of its members the catalogue does not name
	// where they are only counted. What is wrong with data is a *wire.PayloadError; any other error
	// means that it cannot be told.
	Check(namespace, eventType string, data json.RawMessage) (extra int, err error)
}

// Authority knows for which event types this publisher may dead-letter events: those of which the
// database's catalogue says what its own says. While publishers of two versions run side by side,
// the other ones wait for a publisher that may.
type Authority interface {
	// Refresh looks what the database says now. It is called before an event is dead-lettered: what
	// was true a moment ago may be the catalogue from before the event.
	Refresh(ctx context.Context) error
	// Judges reports whether this publisher may dead-letter an event for what its type says.
	Judges(namespace, eventType string) bool
	// StandDown leaves a type to others until the database's catalogue changes.
	StandDown(namespace, eventType string)
	// Except lists, by namespace, the event types that are not to be claimed; those under
	// outbox.AllNamespaces in none.
	Except() map[string][]string
}

// TypesIn lists event types by namespace; those under outbox.AllNamespaces are meant in every one.
type TypesIn map[string][]string

// Has reports whether an event type of a namespace is among them.
func (t TypesIn) Has(namespace, eventType string) bool {
	return slices.Contains(t[outbox.AllNamespaces], eventType) || slices.Contains(t[namespace], eventType)
}

// soleAuthority judges everything: there is one catalogue.
type soleAuthority struct{}

func (soleAuthority) Refresh(context.Context) error { return nil }
func (soleAuthority) Judges(string, string) bool    { return true }
func (soleAuthority) StandDown(string, string)      {}
func (soleAuthority) Except() map[string][]string   { return nil }
