package registry

import (
	"context"
	"slices"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// What becomes of a type.
const (
	TypeAdded   = "added"
	TypeChanged = "changed"
	TypeRemoved = "removed"
	// TypeRenamed is a type that another one was: events of it are still published.
	TypeRenamed = "renamed"
)

// TypeChange is what recording a catalogue would change about one event type.
type TypeChange struct {
	Namespace string `json:"namespace"`
	Type      string `json:"type"`
	Change    string `json:"change"`
	// Parts are what a changed type says otherwise: topic, schema, envelope…
	Parts []string `json:"parts"`
	// Waiting is how many events of the type wait to be published.
	Waiting int64 `json:"waiting"`
}

// decides reports whether a changed type may judge events otherwise: a description does not.
func (c TypeChange) decides() bool {
	return c.Change == TypeChanged && !slices.Equal(c.Parts, []string{"description"})
}

// Difference compares a catalogue with the one that the database recorded.
type Difference struct {
	// Catalogue is the name of the one that was given.
	Catalogue string `json:"catalogue"`
	// Revision is that of the recorded one; 0 means that nothing was recorded, and that the built-in
	// types hold.
	Revision  int64        `json:"revision"`
	Changes   []TypeChange `json:"changes"`
	Unchanged int          `json:"unchanged"`
	// Limits: the destination takes other messages than the one that the catalogue was recorded for.
	Limits bool `json:"limits"`
}

// Differs reports whether there is something to record.
func (d Difference) Differs() bool { return d.Limits || len(d.Changes) > 0 }

// Diff reports what recording a catalogue would change. One for a namespace of another catalogue
// would be refused.
func Diff(ctx context.Context, db outbox.DB, given *Registry) (Difference, error) {
	recorded, err := Recorded(ctx, db)
	if err != nil {
		return Difference{}, err
	}
	if err := given.Replaces(recorded.Recording.Catalogue); err != nil {
		return Difference{}, applyError(err)
	}
	waiting, err := catalogue.WaitingTypes(ctx, db)
	if err != nil {
		return Difference{}, err
	}
	d := diff(recorded, given, waiting)
	d.Limits = recorded.Limits() != given.Limits()
	if recorded.Source != PackFinderz {
		return d, nil
	}
	used, err := outbox.One[bool](ctx, db, "look for events", usedSQL)
	if !used {
		d.Changes = slices.DeleteFunc(d.Changes, func(c TypeChange) bool { return c.Change == TypeRemoved })
	}
	return d, err
}

// usedSQL reports whether the outbox ever held an event. Where it did not and nothing is recorded,
// no emitter has the built-in types: a first catalogue removes nothing.
const usedSQL = `SELECT EXISTS (SELECT FROM outbox_events) OR EXISTS (SELECT FROM outbox_dlq)`

func diff(recorded, given *Registry, waiting []catalogue.Waiting) Difference {
	d := Difference{Catalogue: given.Name(), Revision: recorded.Recording.Revision,
		Changes: []TypeChange{}}
	merged := recorded.With(given.Catalogue)
	before, after := typesOf(recorded.Catalogue), typesOf(merged)
	count := func(namespace, name string) (n int64) {
		for _, w := range waiting {
			if w.EventType == name && (w.Namespace == namespace || namespace == catalogue.AllNamespaces) {
				n += w.Events
			}
		}
		return n
	}
	add := func(t namedType, change string, parts []string) {
		d.Changes = append(d.Changes, TypeChange{t.namespace, t.Name, change, parts,
			count(t.namespace, t.Name)})
	}
	for _, t := range after {
		i := slices.IndexFunc(before, t.same)
		switch {
		case i < 0:
			add(t, TypeAdded, []string{})
		case before[i].Digest() != t.Digest() || before[i].physical != t.physical || before[i].Description != t.Description:
			add(t, TypeChanged, parts(before[i], t))
		default:
			d.Unchanged++
		}
	}
	for _, t := range before {
		if slices.ContainsFunc(after, t.same) {
			continue
		}
		if now, ok := merged.Find(t.namespace, t.Name); ok {
			add(t, TypeRenamed, []string{now.Name})
		} else {
			add(t, TypeRemoved, []string{})
		}
	}
	return d
}

type namedType struct {
	catalogue.Type
	namespace string
	// physical is what the topic is called at the broker.
	physical string
}

func (t namedType) same(other namedType) bool {
	return t.namespace == other.namespace && t.Name == other.Name
}

func typesOf(c *catalogue.Catalogue) []namedType {
	var all []namedType
	for _, d := range c.Documents() {
		for _, t := range d.Types {
			all = append(all, namedType{t, d.Namespace, d.Topics[t.Topic]})
		}
	}
	return all
}

// parts names what two versions of a type say differently.
func parts(a, b namedType) []string {
	differ := []string{}
	for name, same := range map[string]bool{
		"topic": a.Topic == b.Topic, "topic_name": a.physical == b.physical, "aggregate": a.Aggregate == b.Aggregate, "schema": a.Schema == b.Schema,
		"envelope": a.Envelope == b.Envelope, "extra_fields": a.ExtraFields == b.ExtraFields, "check": a.Check == b.Check,
		"empty": a.Empty == b.Empty, "envelope_id": a.EnvelopeID == b.EnvelopeID, "was": slices.Equal(a.Was, b.Was),
		"order": a.Order == b.Order, "cloudevents": a.CloudEventsSource == b.CloudEventsSource, "policy": a.Policy == b.Policy,
		"description": a.Description == b.Description,
	} {
		if !same {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	return differ
}
