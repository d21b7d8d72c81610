package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/internal/short"
)

// The attributes every message carries. Headers may not use these names.
const (
	AttrEventID       = "event_id"
	AttrEventType     = "event_type"
	AttrAggregateType = "aggregate_type"
	AttrAggregateID   = "aggregate_id"
	AttrCreatedAt     = "created_at"
)

// OwnAttributes is how many of the broker's attributes are ours.
const OwnAttributes = 5

// Attributes builds the attributes of a message: the five every message carries,
// then the row's headers. A header never replaces one of the five: a consumer
// trusts event_id to be the row's.
func Attributes(id, eventType, aggregateType, aggregateID string, createdAt time.Time, headers map[string]string) map[string]string {
	attrs := make(map[string]string, len(headers)+OwnAttributes)
	for name, value := range headers {
		attrs[name] = value
	}
	attrs[AttrEventID] = id
	attrs[AttrEventType] = eventType
	attrs[AttrAggregateType] = aggregateType
	attrs[AttrAggregateID] = aggregateID
	attrs[AttrCreatedAt] = createdAt.UTC().Format(time.RFC3339Nano)
	return attrs
}

// IsOwnAttribute says whether a name is one of the five.
func IsOwnAttribute(name string) bool {
	switch name {
	case AttrEventID, AttrEventType, AttrAggregateType, AttrAggregateID, AttrCreatedAt:
		return true
	}
	return false
}

// ParseHeaders reads a row's headers column: NULL, or an object of strings. Rows
// written without the emit function may hold anything.
func ParseHeaders(raw json.RawMessage) (map[string]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	members, err := jsonb.Members(raw, "headers")
	if err != nil {
		return nil, errors.New("headers are not a JSON object")
	}
	headers := make(map[string]string, len(members))
	for _, m := range members {
		value, ok := jsonb.String(m.Value)
		if !ok {
			return nil, fmt.Errorf("header %q is not a string", short.Name(m.Name))
		}
		if IsOwnAttribute(m.Name) {
			return nil, fmt.Errorf("header %q is an attribute the publisher sets", m.Name)
		}
		headers[m.Name] = value
	}
	return headers, nil
}

// OwnAttributeBytes is what the five weigh in a message. created_at is the
// database's to set; the longest form it can be printed in is assumed.
func OwnAttributeBytes(eventType, aggregateType string) int {
	const id, longestTime = len("00000000-0000-0000-0000-000000000000"), len("2006-01-02T15:04:05.999999Z")
	return attributeBytes(len(AttrEventID), id) + attributeBytes(len(AttrEventType), len(eventType)) +
		attributeBytes(len(AttrAggregateType), len(aggregateType)) + attributeBytes(len(AttrAggregateID), id) +
		attributeBytes(len(AttrCreatedAt), longestTime)
}
