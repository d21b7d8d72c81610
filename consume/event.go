package consume

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// Event is a message with usable attributes, as handlers get it.
type Event struct {
	ID   uuid.UUID
	Type string
	// AggregateType and AggregateID are empty where events are about no aggregate, TenantID and
	// DedupeKey where the event has none.
	AggregateType, AggregateID     string
	Namespace, TenantID, DedupeKey string
	CreatedAt                      time.Time // zero when the attribute is missing
	// Seq is the event's place in its ordering key, which a subscription with message ordering
	// delivers by; 0 where it has no key. A consumer that keeps the last one it applied may drop what
	// is not larger.
	Seq int64
	// OrderingKey is the message's; empty for most. Attempt is 1 for the first try, and counts as the
	// broker does, or as this process where that has seen more.
	OrderingKey string
	Attempt     int
	// Attributes are all of them, the event's headers included.
	Attributes map[string]string
	// Body is the message's: an envelope, or the data itself where the catalogue says so.
	Body []byte
}

// ParseEvent reads the attributes of a message. The error wraps ErrMalformed.
func ParseEvent(attributes map[string]string, body []byte) (Event, error) {
	id, err := wire.ParseID(attributes[AttrEventID])
	if err != nil {
		return Event{}, Malformed(fmt.Errorf("attribute %s %w", AttrEventID, err))
	}
	if attributes[AttrEventType] == "" {
		return Event{}, Malformed(fmt.Errorf("attribute %s is missing", AttrEventType))
	}
	e := Event{
		ID: id, Type: attributes[AttrEventType], AggregateType: attributes[AttrAggregateType], AggregateID: attributes[AttrAggregateID],
		Namespace: attributes[wire.AttrNamespace], TenantID: attributes[wire.AttrTenantID], DedupeKey: attributes[wire.AttrDedupeKey],
		Attributes: attributes, Body: body,
	}
	// The time is for people; a message without it is still good.
	e.CreatedAt, _ = time.Parse(time.RFC3339Nano, attributes[AttrCreatedAt])
	e.Seq, _ = strconv.ParseInt(attributes[wire.AttrEventSeq], 10, 64) // most have none
	return e, nil
}

// Data returns what the event says: the data of its envelope, or the whole body where that is no
// envelope.
func (e Event) Data() json.RawMessage {
	if envelope, err := wire.ParseEnvelope(e.Body); err == nil {
		return envelope.Data
	}
	return e.Body
}
