package operate

import "github.com/outboxctl/outboxctl/internal/registry"

// EventType is one type of the catalogue.
type EventType struct {
	Type          string         `json:"type"`
	AggregateType string         `json:"aggregateType"`
	Topic         string         `json:"topic"`
	Description   string         `json:"description"`
	Fields        []PayloadField `json:"fields"`
}

// PayloadField is one field of an event type's payload.
type PayloadField struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

// EventTypes lists the types of a catalogue.
func EventTypes(catalogue *registry.Registry) []EventType {
	all := catalogue.Types()
	types := make([]EventType, len(all))
	for i, t := range all {
		types[i] = EventType{t.Name, t.Aggregate, t.Topic, t.Description, make([]PayloadField, len(t.Fields))}
		for j, f := range t.Fields {
			types[i].Fields[j] = PayloadField{f.Name, f.Type, f.Required}
		}
	}
	return types
}
