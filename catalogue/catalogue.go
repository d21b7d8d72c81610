package catalogue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// AllNamespaces is the namespace of a document that speaks for every namespace, except for the
// types of a namespace's own document.
const AllNamespaces = "*"

// None is the aggregate of events that belong to no aggregate, and the envelope of payloads that
// have none.
const None = "none"

// Document is the catalogue of one namespace: what one YAML document says.
type Document struct {
	Name string
	// Namespace is the one it speaks for; empty means AllNamespaces.
	Namespace string
	// Topics gives each logical topic its name at the broker. New names a topic that is missing here
	// like itself.
	Topics map[string]string
	Types  []Type
}

// Type is what a catalogue says of one event type. Empty texts mean the default.
type Type struct {
	Name        string `json:"-"`
	Description string `json:"-"`
	// Topic is the logical topic that events are published on. Required.
	Topic string `json:"topic"`
	// Aggregate is the type of the aggregate that events are about, or None. Required.
	Aggregate string `json:"aggregate"`
	// Schema is what data must be.
	Schema Schema `json:"schema"`
	// Envelope is Standard, or None where payload_json is the data itself.
	Envelope string `json:"envelope"`
	// ExtraFields is what becomes of members that the schema does not name: Refuse, Warn or Allow.
	// Emitters refuse them unless it is Allow; the publisher only where it is Refuse.
	ExtraFields string `json:"extraFields"`
	// Check is CheckPublish, or CheckEmit where the publisher does not look into data.
	Check string `json:"check"`
	// Empty is Allow where {} is valid whatever the schema says.
	Empty string `json:"empty,omitempty"`
	// EnvelopeID is Refuse where an event whose envelope has another eventId than its row dies.
	EnvelopeID string `json:"envelopeId,omitempty"`
	// Was lists former names, under which events are still published but no longer emitted.
	Was []string `json:"was,omitempty"`
	// Order is None, or OrderAggregate where events of an aggregate are published in the order they
	// were emitted in.
	Order string `json:"order"`
	// CloudEventsSource, when set, adds the attributes of a CloudEvent with this source. For envelope
	// None only.
	CloudEventsSource string `json:"cloudEventsSource,omitempty"`
	// Policy is how its events are tried, until when and how fast.
	Policy wire.Policy `json:"policy,omitzero"`

	check func() (*checker, error)
	// problem is why Of made no schema.
	problem error
	// file is where the schema was read, among the files that it refers to.
	file string
	// digest is what a database recorded, as it is now since appliedAt, by appliedBy.
	digest, appliedBy, appliedAt string
}

// textKey is a key of a type whose value is one text. Of the values that it may have, if they are
// listed, the first is the default.
type textKey struct {
	key    string
	text   *string
	values []string
}

// texts are those of the type, in the order in which they are written.
func (t *Type) texts() []textKey {
	return []textKey{
		{"description", &t.Description, nil},
		{"topic", &t.Topic, nil},
		{"aggregate", &t.Aggregate, nil},
		{"envelope", &t.Envelope, []string{Standard, None}},
		{"extra_fields", &t.ExtraFields, []string{Warn, Refuse, Allow}},
		{"check", &t.Check, []string{CheckPublish, CheckEmit}},
		{"empty", &t.Empty, []string{"", Allow}},
		{"envelope_id", &t.EnvelopeID, []string{"", Refuse}},
		{"order", &t.Order, []string{None, OrderAggregate}},
	}
}

// What a Type's texts may be.
const (
	Standard       = "standard"
	Refuse         = "refuse"
	Warn           = "warn"
	Allow          = "allow"
	CheckPublish   = "publish"
	CheckEmit      = "emit"
	OrderAggregate = "aggregate"
)

// Catalogue holds the documents of any number of namespaces.
type Catalogue struct {
	documents   []Document
	warnings    []string
	packfinderz bool
	// types finds a type by namespace and name, former names included.
	types map[key]*Type
	// limits are the destination's; none are set where they are Pub/Sub's.
	limits wire.Limits
}

type key struct{ namespace, name string }

// New makes the catalogue of every namespace from types. What is wrong with them is a *Problems.
func New(name string, types ...Type) (*Catalogue, error) {
	return Build(Document{Name: name, Types: types})
}

// Build makes a catalogue from documents, one for each namespace. A document that names no topics
// has those of its types, each called at the broker as in another document, or as it is here.
func Build(documents ...Document) (*Catalogue, error) {
	bad := &Problems{}
	documents = slices.Clone(documents)
	named := map[string]string{}
	for _, d := range documents {
		maps.Copy(named, d.Topics)
	}
	for i, d := range documents {
		if len(d.Topics) > 0 {
			continue
		}
		documents[i].Topics = map[string]string{}
		for _, t := range d.Types {
			documents[i].Topics[t.Topic] = cmp.Or(named[t.Topic], t.Topic)
		}
	}
	c := build(documents, make([]lines, len(documents)), nil, bad)
	return c, bad.orNil()
}

// PackFinderz returns the catalogue that is compiled into outboxctl: the event types of package
// packfinderz, checked by its own code, which takes a tenth of the time a JSON Schema takes.
func PackFinderz() *Catalogue {
	known := packfinderz.Catalogue{}.Types()
	d := Document{Name: "packfinderz", Namespace: AllNamespaces, Types: make([]Type, len(known)), Topics: map[string]string{
		packfinderz.TopicDomain: "pf-domain-events", packfinderz.TopicAnalytics: "pf-analytics-events",
		packfinderz.TopicNotifications: "pf-notification-events", packfinderz.TopicBilling: "pf-billing-events",
	}}
	c := &Catalogue{documents: []Document{d}, packfinderz: true, types: map[key]*Type{}}
	for i, t := range known {
		d.Types[i] = Type{
			Name: t.Name, Description: t.Description, Topic: t.Topic, Aggregate: t.Aggregate, Schema: Schema(t.Schema()),
			Envelope: Standard, ExtraFields: Refuse, Check: CheckPublish, Empty: Allow, Order: None,
			check: ready(&checker{packfinderz: &t}),
		}
		c.types[key{AllNamespaces, t.Name}] = &d.Types[i]
	}
	return c
}

// Documents lists the documents, in their order.
func (c *Catalogue) Documents() []Document {
	out := slices.Clone(c.documents)
	for i := range out {
		out[i].Types, out[i].Topics = slices.Clone(out[i].Types), maps.Clone(out[i].Topics)
	}
	return out
}

// Warnings lists what is allowed and most likely a mistake, such as a keyword that JSON Schema does
// not know.
func (c *Catalogue) Warnings() []string { return slices.Clone(c.warnings) }

// Name names the documents.
func (c *Catalogue) Name() string {
	names := make([]string, len(c.documents))
	for i, d := range c.documents {
		names[i] = d.Name
	}
	return strings.Join(names, ", ")
}

// Find returns what the catalogue says of an event type, by its present or a former name: its
// namespace's own document decides, or else the one of all namespaces.
func (c *Catalogue) Find(namespace, name string) (Type, bool) {
	t := c.find(namespace, name)
	if t == nil {
		return Type{}, false
	}
	return *t, true
}

func (c *Catalogue) find(namespace, name string) *Type {
	if t := c.types[key{cmp.Or(namespace, "default"), name}]; t != nil {
		return t
	}
	return c.types[key{AllNamespaces, name}]
}

// speaksFor reports whether a namespace has a document of its own.
func (c *Catalogue) speaksFor(namespace string) bool {
	return slices.ContainsFunc(c.documents, func(d Document) bool { return d.Namespace == namespace })
}

// Topics gives every logical topic its name at the broker. Build has seen to it that no two
// documents disagree.
func (c *Catalogue) Topics() map[string]string {
	topics := map[string]string{}
	for _, d := range c.documents {
		maps.Copy(topics, d.Topics)
	}
	return topics
}

var (
	typeName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/-]*$`)
	topicName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
)

// The bounds of names. Those of types are what the database's indexes hold.
const (
	maxNameBytes      = 255
	maxNamespaceBytes = 255
)

func wellFormed(name string) bool { return len(name) <= maxNameBytes && typeName.MatchString(name) }

// Applied is who recorded the type as it is now, and when. It is empty for a type that was not read
// from a database.
func (t Type) Applied() (by string, at time.Time) {
	at, err := time.Parse(time.RFC3339Nano, t.appliedAt)
	if err != nil {
		return "", time.Time{}
	}
	return t.appliedBy, at
}

// Digest is the same for types of which the same is said. Descriptions say nothing: they decide
// about no event.
func (t Type) Digest() string {
	if t.digest != "" {
		return t.digest
	}
	text, err := canonical(t)
	if err != nil {
		return "" // texts always encode
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
