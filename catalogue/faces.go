package catalogue

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// Resolve returns the aggregate type and the logical topic of an event type of namespace default,
// for emitters: former names are not found.
func (c *Catalogue) Resolve(eventType string) (aggregateType, topic string, ok bool) {
	return namespaced{c, ""}.Resolve(eventType)
}

// Validate checks data as an emitter has to: members that the schema does not name are refused
// unless the type allows them. What is wrong with data is a *wire.PayloadError.
func (c *Catalogue) Validate(eventType string, data json.RawMessage) error {
	return namespaced{c, ""}.Validate(eventType, data)
}

// In returns the catalogue of a namespace. An Emitter asks for it; one that is made with it writes
// to that namespace:
//
//	emitter := emit.New(cat.In("mini-chat"))
func (c *Catalogue) In(namespace string) emit.Catalogue {
	if c.packfinderz {
		return packFinderzNamespaced{namespaced{c, namespace}}
	}
	return namespaced{c, namespace}
}

// Limits are those of the destination that its events are for: an Emitter takes them. They are
// Pub/Sub's unless WithLimits, or the database that recorded the catalogue, tells others.
func (c *Catalogue) Limits() wire.Limits { return cmp.Or(c.limits, wire.PubSubLimits()) }

// WithLimits returns the catalogue for another destination. Apply records them, so that outbox_emit
// takes them too; Limits("") of a package dispatch.Publisher are a destination's.
func (c *Catalogue) WithLimits(limits wire.Limits) *Catalogue {
	other := *c
	other.limits = limits
	return &other
}

// namespaced is a catalogue as an emitter of one namespace sees it; the package emit says what each
// method is for.
type namespaced struct {
	catalogue *Catalogue
	namespace string
}

// packFinderzNamespaced is the built-in catalogue, whose aggregates have UUIDs.
type packFinderzNamespaced struct{ namespaced }

func (packFinderzNamespaced) CheckAggregateID(id string) error {
	return packfinderz.Catalogue{}.CheckAggregateID(id)
}

func (n namespaced) Namespace() string { return n.namespace }

func (n namespaced) Limits() wire.Limits { return n.catalogue.Limits() }

func (n namespaced) find(eventType string) (t *Type, ok bool) {
	if t = n.catalogue.find(n.namespace, eventType); t == nil || t.Name != eventType {
		return &Type{}, false
	}
	return t, true
}

func (n namespaced) Resolve(eventType string) (aggregateType, topic string, ok bool) {
	t, ok := n.find(eventType)
	return t.aggregate(), t.Topic, ok
}

func (n namespaced) Validate(eventType string, data json.RawMessage) error {
	t, ok := n.find(eventType)
	if !ok {
		return fmt.Errorf("unknown event type %q", cut(eventType))
	}
	_, err := t.judge(data, t.ExtraFields != Allow)
	return err
}

func (n namespaced) WithoutEnvelope(eventType string) bool {
	t, _ := n.find(eventType)
	return t.Envelope == None
}

func (n namespaced) OrderedByAggregate(eventType string) bool {
	t, _ := n.find(eventType)
	return t.Order == OrderAggregate
}

func (n namespaced) CloudEventsSource(eventType string) string {
	t, _ := n.find(eventType)
	return t.CloudEventsSource
}

// Describe returns what a publisher has to know of an event type, by its present or a former name.
func (c *Catalogue) Describe(namespace, eventType string) (wire.EventType, bool) {
	t := c.find(namespace, eventType)
	if t == nil {
		return wire.EventType{}, false
	}
	return wire.EventType{
		Aggregate: t.aggregate(), Topic: t.Topic, Bare: t.Envelope == None,
		RefuseOtherID: t.EnvelopeID == Refuse, CloudEventsSource: t.CloudEventsSource, Policy: t.Policy,
	}, true
}

// aggregate is the aggregate type as a row has it.
func (t *Type) aggregate() string {
	if t.Aggregate == None {
		return ""
	}
	return t.Aggregate
}
