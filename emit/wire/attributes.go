package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/internal/short"
)

// The attributes that every message carries. Headers may not use these names.
const (
	AttrEventID       = "event_id"
	AttrEventType     = "event_type"
	AttrAggregateType = "aggregate_type"
	AttrAggregateID   = "aggregate_id"
	AttrCreatedAt     = "created_at"
)

// StandardAttributes is how many attributes every message carries.
const StandardAttributes = 5

// IsStandardAttribute reports whether every message carries an attribute of that name.
func IsStandardAttribute(name string) bool {
	switch name {
	case AttrEventID, AttrEventType, AttrAggregateType, AttrAggregateID, AttrCreatedAt:
		return true
	}
	return false
}

// Attributes builds the attributes of a message: the standard ones and the row's
// headers. A header never replaces a standard one: a consumer trusts event_id to be
// the row's.
func Attributes(id, eventType, aggregateType, aggregateID string, createdAt time.Time, headers map[string]string) map[string]string {
	attrs := make(map[string]string, len(headers)+StandardAttributes)
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
		if IsStandardAttribute(m.Name) {
			return nil, fmt.Errorf("header %q is an attribute the publisher sets", m.Name)
		}
		headers[m.Name] = value
	}
	return headers, nil
}
