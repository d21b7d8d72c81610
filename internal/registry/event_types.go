package registry

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
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
	TopicName   string `json:"topicName"`
	Envelope    string `json:"envelope"`
	ExtraFields string `json:"extraFields"`
	Check       string `json:"check"`
	// Order is aggregate, or none.
	Order string   `json:"order"`
	Was   []string `json:"was"`
	// Policy is how its events are tried; {} leaves everything to the publishers.
	Policy wire.Policy `json:"policy"`
	Digest string      `json:"digest"`
}

// EventTypeDetail is all that the catalogue says of a type.
type EventTypeDetail struct {
	EventType
	// Schema is the JSON Schema of the data; null for any JSON.
	Schema json.RawMessage `json:"schema"`
	// Sample is data that the schema accepts, where one could be made.
	Sample json.RawMessage `json:"sample"`
	// Attributes are those of its messages, besides the headers.
	Attributes []string `json:"attributes"`
	// AppliedAt is since when the type is recorded as it is; null for a type that is not read from a
	// database.
	AppliedAt *time.Time `json:"appliedAt"`
	AppliedBy string     `json:"appliedBy"`
	// Publishers are the live ones, with the version of the type that each has. Only a database knows
	// them.
	Publishers []TypeHolder `json:"publishers"`
}

// What of a type a publisher has.
const (
	VersionSame  = "same"
	VersionOther = "other"
	VersionNone  = "none"
	// VersionUnseen is that of a publisher that has not looked at the catalogue since it was recorded.
	VersionUnseen = "unseen"
)

// TypeHolder is a live publisher and the version of an event type that it has.
type TypeHolder struct {
	ID   string `json:"id"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Source is where the publisher's catalogue comes from.
	Source  string `json:"source"`
	Version string `json:"version"`
	// Digest is the publisher's, where its version is another.
	Digest string `json:"digest,omitempty"`
	// StoodDown: an event did not fit the publisher's version, so it leaves the type to others.
	StoodDown bool `json:"stoodDown"`
}

// PayloadField is one field of an event type's payload.
type PayloadField struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

// List describes the types of the catalogue.
func (r *Registry) List() []EventType {
	types := []EventType{}
	for _, t := range typesOf(r.Catalogue) {
		types = append(types, eventType(t))
	}
	return types
}

// TypeParams names an event type. Without a namespace the first that has it is meant.
type TypeParams struct{ Namespace, Name string }

// Show returns all that the catalogue says of a type, by its present or a former name.
func (r *Registry) Show(p TypeParams) (EventTypeDetail, error) {
	for _, t := range typesOf(r.Catalogue) {
		named := t.Name == p.Name || slices.Contains(t.Was, p.Name)
		if !named || p.Namespace != "" && p.Namespace != t.namespace {
			continue
		}
		detail := EventTypeDetail{EventType: eventType(t), Schema: t.Schema.JSON(), Sample: Sample(t.Type),
			Attributes: attributes(t.Type), Publishers: []TypeHolder{}}
		if by, at := t.Applied(); !at.IsZero() {
			detail.AppliedAt, detail.AppliedBy = &at, by
		}
		return detail, nil
	}
	unknown := fault.NotFoundf("event type %q is not in the catalogue (%s)", p.Name, r.Source)
	return EventTypeDetail{}, words.DidYouMean(unknown, p.Name, r.EventTypes(),
		"outboxctl registry list shows those that are")
}

// attributes names those that every message of a type has, and after them with a question mark
// those that some have.
func attributes(t catalogue.Type) []string {
	row := wire.Row{Namespace: "any", CloudEventsSource: t.CloudEventsSource,
		CreatedAt: time.Unix(0, 0)}
	if t.Aggregate != catalogue.None {
		row.AggregateType, row.AggregateID = t.Aggregate, "any"
	}
	return append(slices.Sorted(maps.Keys(wire.Attributes(row))), wire.AttrDedupeKey+"?",
		wire.AttrTenantID+"?")
}

// Holders reports which version of a recorded type the live publishers have.
func (r *Registry) Holders(ctx context.Context, db outbox.DB, t EventType) ([]TypeHolder, error) {
	holders := []TypeHolder{}
	live, err := dispatch.Peers(ctx, db)
	if err != nil {
		return holders, err
	}
	for _, p := range live {
		if p.Alive && p.State.Catalogue != nil {
			holders = append(holders, holds(p, t, r.Recording.Revision))
		}
	}
	return holders, nil
}

func holds(p dispatch.Peer, t EventType, revision int64) TypeHolder {
	c := p.State.Catalogue
	h := TypeHolder{ID: p.ID, Host: p.Host, PID: p.PID, Source: c.Source, Version: VersionSame,
		Digest: c.Other[t.Namespace][t.Type]}
	switch {
	case c.Unknown.Has(t.Namespace, t.Type):
		h.Version = VersionNone
	case h.Digest != "":
		h.Version = VersionOther
	case c.Revision != revision:
		h.Version = VersionUnseen
	}
	for namespace := range c.StoodDown {
		h.StoodDown = h.StoodDown || (t.Namespace == catalogue.AllNamespaces || t.Namespace == namespace) && c.StoodDown.Has(namespace, t.Type)
	}
	return h
}

func eventType(t namedType) EventType {
	fields := []PayloadField{}
	for _, f := range t.Fields() {
		fields = append(fields, PayloadField(f))
	}
	return EventType{
		Type: t.Name, AggregateType: t.Aggregate, Topic: t.Topic, Description: t.Description, Fields: fields,
		Namespace: t.namespace, TopicName: t.physical, Envelope: t.Envelope, ExtraFields: t.ExtraFields, Check: t.Check, Order: t.Order,
		Was: append([]string{}, t.Was...), Policy: t.Policy, Digest: t.Digest(),
	}
}
