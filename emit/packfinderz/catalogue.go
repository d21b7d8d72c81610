// Package packfinderz is the catalogue of event types that is compiled into outboxctl, with a struct
// for the payload of each. The whole of it is in types.go: to add an event type, add its name, its
// entry and its struct there. Where event types are a database enum, a migration adds the name too.
//
// What it guarantees:
//
//   - every event type has exactly one aggregate type, one topic and one payload;
//   - a payload is either the empty object or complete: no unknown field (names are
//     compared exactly, "orderid" is not "orderId"), no wrong type, no missing
//     required field;
//   - errors name the field and the problem, never the value, so that they may be
//     logged and stored.
package packfinderz

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/internal/short"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// Type describes one event type.
type Type struct {
	// Name is the event type, one of the Type constants.
	Name string
	// Aggregate is the type of the aggregate that the event is about.
	Aggregate string
	// Topic is the logical topic that the event is published on.
	Topic string
	// Description is when the event happens.
	Description string
	// Fields are the members of the payload.
	Fields []Field
}

// Field describes one member of a payload.
type Field struct {
	Name string
	// Type is the field's type as the documentation prints it.
	Type     string
	Required bool

	kind   kind
	values []string
}

// Catalogue is the built-in catalogue. It holds nothing: its zero value is complete.
type Catalogue struct{}

// Types lists every event type, in the catalogue's order.
func (Catalogue) Types() []Type { return slices.Clone(types) }

// Resolve returns the aggregate type and the logical topic of an event type.
func (Catalogue) Resolve(eventType string) (aggregateType, topic string, ok bool) {
	t := find(eventType)
	if t == nil {
		return "", "", false
	}
	return t.Aggregate, t.Topic, true
}

// Validate checks an envelope's data against the payload of its event type. What is wrong with data
// is a *wire.PayloadError. The empty object is always valid; null, or nothing at all, never is.
func (Catalogue) Validate(eventType string, data json.RawMessage) error {
	t := find(eventType)
	if t == nil {
		return fmt.Errorf("unknown event type %q", short.Name(eventType))
	}
	var c checker
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0:
		c.add("data", "is required")
	case string(data) == "null":
		c.add("data", "must not be null; an event without data carries {}")
	default:
		c.payload(t.Fields, data)
	}
	if len(c.problems) > 0 {
		return &wire.PayloadError{EventType: eventType, Problems: c.problems}
	}
	return nil
}

// CheckAggregateID returns an error unless the id is a UUID, as all ids of this
// catalogue's aggregates are.
func (Catalogue) CheckAggregateID(id string) error {
	_, err := wire.ParseID(id)
	return err
}

// find looks through the whole table: with names of so few different lengths that is
// as fast as a map.
func find(eventType string) *Type {
	for i := range types {
		if types[i].Name == eventType {
			return &types[i]
		}
	}
	return nil
}

func (c *checker) payload(fields []Field, data json.RawMessage) {
	members, err := jsonb.Members(data, "data")
	if bad, ok := errors.AsType[*jsonb.Error](err); ok {
		c.add(bad.Path, bad.Problem)
	}
	if len(members) == 0 {
		return
	}
	for _, f := range fields {
		i := slices.IndexFunc(members, func(m jsonb.Member) bool { return m.Name == f.Name })
		if i >= 0 && string(members[i].Value) != "null" {
			c.value(f, members[i].Value)
		} else if f.Required {
			// A null counts as absent.
			c.fail(f.Name, "is required")
		}
	}
	for _, m := range members {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == m.Name }) {
			c.fail(short.Name(m.Name), "is not a field of this payload")
		}
	}
}

// AggregateTypes lists every aggregate type. No event uses "store" yet: the
// database knows it, so it is listed.
func AggregateTypes() []string {
	return []string{
		AggregateVendorOrder, AggregateCheckoutGroup, AggregateLicense, AggregateStore,
		AggregateMedia, AggregateLedgerEvent, AggregateNotification, AggregateAd,
	}
}
