package builtin

import (
	"encoding/json"
	"fmt"
)

// Field describes one member of a payload.
type Field struct {
	Name     string
	Type     string
	Required bool
}

// Entry describes one event type.
type Entry struct {
	EventType     string
	AggregateType string
	Topic         string
	Description   string
	Fields        []Field
}

type entry struct {
	eventType, aggregateType, topic, description string
	decode                                       func(*decoder) Payload
}

// Catalogue is the catalogue. It is immutable and safe for concurrent use.
type Catalogue struct {
	entries []entry
	byType  map[string]*entry
}

// New builds the catalogue.
func New() *Catalogue {
	r := &Catalogue{entries: catalogue()}
	r.byType = make(map[string]*entry, len(r.entries))
	for i := range r.entries {
		r.byType[r.entries[i].eventType] = &r.entries[i]
	}
	return r
}

// Resolve names the aggregate type and the logical topic of an event type.
func (r *Catalogue) Resolve(eventType string) (aggregateType, topic string, ok bool) {
	e, ok := r.byType[eventType]
	if !ok {
		return "", "", false
	}
	return e.aggregateType, e.topic, true
}

// Validate checks an envelope's data against the payload of its event type. It
// returns nil, an error that is ErrUnknownEventType, or a *PayloadError.
func (r *Catalogue) Validate(eventType string, data json.RawMessage) error {
	_, err := r.Decode(eventType, data)
	return err
}

// Decode turns data into the payload struct of its event type. The empty object
// gives the struct's zero value; null, or nothing at all, is an error.
func (r *Catalogue) Decode(eventType string, data json.RawMessage) (Payload, error) {
	e, ok := r.byType[eventType]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrUnknownEventType, shortName(eventType))
	}
	members, problem := object(data)
	if problem != "" {
		return nil, &PayloadError{EventType: eventType, Problems: []FieldProblem{{Field: "data", Problem: problem}}}
	}
	if len(members) == 0 {
		return e.decode(&decoder{describing: true}), nil
	}
	d := decoder{members: members}
	p := e.decode(&d)
	d.finish()
	if len(d.problems) > 0 {
		return nil, &PayloadError{EventType: eventType, Problems: d.problems}
	}
	return p, nil
}

// Entries describes every event type, in the catalogue's order.
func (r *Catalogue) Entries() []Entry {
	all := make([]Entry, len(r.entries))
	for i, e := range r.entries {
		d := decoder{describing: true}
		e.decode(&d)
		all[i] = Entry{
			EventType:     e.eventType,
			AggregateType: e.aggregateType,
			Topic:         e.topic,
			Description:   e.description,
			Fields:        d.fields,
		}
	}
	return all
}

// EventTypes lists every event type, in the catalogue's order.
func (r *Catalogue) EventTypes() []string {
	types := make([]string, len(r.entries))
	for i, e := range r.entries {
		types[i] = e.eventType
	}
	return types
}
