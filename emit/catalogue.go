package emit

import "encoding/json"

// DefaultNamespace is the namespace of an event that names none.
const DefaultNamespace = "default"

// Catalogue knows the event types. The registry is one.
type Catalogue interface {
	// Resolve names the aggregate and logical topic (domain, analytics,
	// notifications, billing) of an event type.
	Resolve(eventType string) (aggregateType, topic string, ok bool)
	// Validate checks the envelope's data against the type's payload.
	Validate(eventType string, data json.RawMessage) error
}
