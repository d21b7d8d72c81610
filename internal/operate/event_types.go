package operate

import (
	"encoding/json"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// EventType is one type of the catalogue.
type EventType struct {
	Namespace     string `json:"namespace"`
	Type          string `json:"type"`
	AggregateType string `json:"aggregateType"`
	Topic         string `json:"topic"`
	// TopicName is the topic's name at the broker as the catalogue has it.
	TopicName   string         `json:"topicName"`
	Description string         `json:"description"`
	Envelope    string         `json:"envelope"`
	ExtraFields string         `json:"extraFields"`
	Check       string         `json:"check"`
	Was         []string       `json:"was"`
	Fields      []PayloadField `json:"fields"`
	// Schema is the JSON Schema of the data; null for any JSON.
	Schema json.RawMessage `json:"schema"`
	Digest string          `json:"digest"`
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
			types = append(types, EventType{
				Namespace: d.Namespace, Type: t.Name, AggregateType: t.Aggregate, Topic: t.Topic, TopicName: d.Topics[t.Topic],
				Description: t.Description, Envelope: t.Envelope, ExtraFields: t.ExtraFields, Check: t.Check,
				Was: append([]string{}, t.Was...), Fields: payloadFields(t), Schema: t.Schema.JSON(), Digest: t.Digest(),
			})
		}
	}
	return types
}

// payloadFields lists the members that a type's schema names.
func payloadFields(t catalogue.Type) []PayloadField {
	fields := []PayloadField{}
	for _, f := range t.Fields() {
		fields = append(fields, PayloadField{f.Name, f.Type, f.Required})
	}
	return fields
}
