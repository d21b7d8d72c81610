package emit

import "encoding/json"

// Catalogue knows the event types. builtin.Catalogue is one.
type Catalogue interface {
	// Resolve returns the aggregate type and the logical topic of an event type.
	Resolve(eventType string) (aggregateType, topic string, ok bool)
	// Validate checks the envelope's data against the type's payload. What is wrong
	// with data is a *wire.PayloadError.
	Validate(eventType string, data json.RawMessage) error
	// One that also has CheckAggregateID(id string) error says which ids there can be.
	// Without it any text passes that the database may be able to store.
	// One that also has In(namespace string) Catalogue is asked for that of each event's
	// namespace; one with WithoutEnvelope(eventType string) bool says which types are
	// stored as bare data, one with OrderedByAggregate(eventType string) bool which keep
	// the order of their aggregate, one with CloudEventsSource(eventType string) string
	// whose messages are CloudEvents, which takes some of the room for headers.
}
