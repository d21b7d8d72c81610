package operate

import (
	"encoding/json"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// EventType is one type of the catalogue.
type EventType struct {
	Type          string         `json:"type"`
	AggregateType string         `json:"aggregateType"`
	Topic         string         `json:"topic"`
	Description   string         `json:"description"`
	Fields        []PayloadField `json:"fields"`
	Namespace     string         `json:"namespace"`
	// TopicName is the topic's name at the broker as the catalogue has it.
	TopicName   string   `json:"topicName"`
	Envelope    string   `json:"envelope"`
	ExtraFields string   `json:"extraFields"`
	Check       string   `json:"check"`
	Was         []string `json:"was"`
	Digest      string   `json:"digest"`
}

// EventTypeDetail is all that the catalogue says of a type.
type EventTypeDetail struct {
	EventType
	// Schema is the JSON Schema of the data; null for any JSON.
	Schema json.RawMessage `json:"schema"`
}

// PayloadField is one field of an event type's payload.
type PayloadField struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

// EventTypes lists the types of a catalogue.
func EventTypes(known *registry.Registry) []EventType {
	types := []EventType{}
	for _, d := range known.Documents() {
		for _, t := range d.Types {
			types = append(types, eventType(d, t))
		}
	}
	return types
}

// ShowEventType returns all that the catalogue says of a type, by its present name.
func ShowEventType(known *registry.Registry, name string) (EventTypeDetail, error) {
	for _, d := range known.Documents() {
		for _, t := range d.Types {
			if t.Name == name {
				return EventTypeDetail{eventType(d, t), t.Schema.JSON()}, nil
			}
		}
	}
	return EventTypeDetail{}, fault.Hint(fault.NotFoundf("event type %q is not in the catalogue (%s)", name, known.Source), "outboxctl registry list shows those that are")
}

func eventType(d catalogue.Document, t catalogue.Type) EventType {
	return EventType{
		Type: t.Name, AggregateType: t.Aggregate, Topic: t.Topic, Description: t.Description, Fields: payloadFields(t),
		Namespace: d.Namespace, TopicName: d.Topics[t.Topic], Envelope: t.Envelope, ExtraFields: t.ExtraFields, Check: t.Check,
		Was: append([]string{}, t.Was...), Digest: t.Digest(),
	}
}

// payloadFields lists the members that a type's schema names.
func payloadFields(t catalogue.Type) []PayloadField {
	fields := []PayloadField{}
	for _, f := range t.Fields() {
		fields = append(fields, PayloadField{f.Name, f.Type, f.Required})
	}
	return fields
}
