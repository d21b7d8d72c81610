package wire

// EventType is what a publisher has to know of an event type.
type EventType struct {
	// Aggregate is the type of the aggregate that events are about; empty when they are about none.
	Aggregate string
	// Topic is the logical topic that events are published on.
	Topic string
	// Bare: payload_json is the data itself, without an envelope.
	Bare bool
	// RefuseOtherID: an event whose envelope has another eventId than its row cannot be published.
	RefuseOtherID bool
	// CloudEventsSource, when set, is the source of the CloudEvents that messages are.
	CloudEventsSource string
	// Policy is how its events are tried.
	Policy Policy
}
