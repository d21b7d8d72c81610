package emit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/internal/short"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// Bounds of an event's own texts. Those of the first three keep an index entry far below
// the size at which PostgreSQL refuses it. The database holds the same bounds.
const (
	maxNamespaceBytes   = 255
	maxDedupeKeyBytes   = 1024
	maxAggregateIDBytes = 255
	maxActorBytes       = 1024
	// maxOrderingKeyBytes is Pub/Sub's; the namespace is part of the key.
	maxOrderingKeyBytes = 1024
)

// Prepared is an event that passed every check and is ready to be written.
type Prepared struct {
	ID   uuid.UUID
	Type string
	// Topic is the logical topic the event will be published on.
	Topic string
	row   json.RawMessage
}

// Bytes is the size of the event in a statement.
func (p Prepared) Bytes() int { return len(p.row) }

// Row is the event as outbox_emit_many takes it, for functions of the database that write events
// too.
func (p Prepared) Row() json.RawMessage { return p.row }

// Emitter checks events and writes them. It is safe for concurrent use.
type Emitter struct {
	// Limits are the destination's. New sets those that the catalogue tells, or those of Pub/Sub. What
	// is beyond them is refused here; what is beyond those of a publisher dies as message_too_large.
	Limits wire.Limits
	// Headers, unless it is nil, is asked for headers that every event of a call of Emit gets, where
	// it has none of that name itself: for the trace of ctx, see the module emit/otelemit.
	Headers func(ctx context.Context) map[string]string
	// Now is asked for the time of events that carry none. New sets time.Now.
	Now func() time.Time

	catalogue Catalogue
	newID     func() (uuid.UUID, error)
}

// New returns an Emitter that checks events against a catalogue. Its exported fields
// may be changed before its first use.
func New(catalogue Catalogue) *Emitter {
	e := &Emitter{Limits: wire.PubSubLimits(), Now: time.Now, catalogue: catalogue, newID: uuid.NewV7}
	if c, ok := catalogue.(interface{ Limits() wire.Limits }); ok {
		e.Limits = c.Limits()
	}
	return e
}

// Prepare checks an event completely, without a database: an error that only PostgreSQL finds would
// abort the caller's transaction. A refused event gives an *InvalidError with all its problems.
func (e *Emitter) Prepare(event Event) (Prepared, error) {
	bad := &InvalidError{}
	e = e.in(&event, bad)
	aggregate, topic := e.checkType(event, bad)
	checkScope(event, bad)
	orderedBy := e.orderedBy(event, aggregate, topic, bad)
	if orderedBy != "" {
		event.OrderingKey = orderedBy + event.AggregateID
	}
	checkText("orderingKey", event.OrderingKey, maxOrderingKeyBytes-len(cmp.Or(event.Namespace, "default"))-1, bad)
	e.checkHeaders(event, bad)
	if event.MaxAttempts < 0 || event.MaxAttempts > 1<<31-1 {
		bad.add("maxAttempts", "must be a positive 32-bit number, or 0 for the publisher's own")
	}
	if year := event.DeliverAt.UTC().Year(); year < 1 || year > 9999 {
		bad.add("deliverAt", "is outside the years 1 to 9999")
	}

	id, err := event.ID, error(nil)
	if id == uuid.Nil {
		if id, err = e.newID(); err != nil {
			return Prepared{}, fmt.Errorf("make an event id: %w", err)
		}
	}
	envelope, size := e.envelope(event, id, topic != "", bad)
	if len(bad.Problems) == 0 {
		e.checkSize(event, aggregate, size, bad)
	}
	if len(bad.Problems) > 0 {
		return Prepared{}, bad
	}
	row, err := event.row(id, aggregate, orderedBy, envelope)
	if err != nil {
		return Prepared{}, fmt.Errorf("encode event: %w", err)
	}
	return Prepared{ID: id, Type: event.Type, Topic: topic, row: row}, nil
}

// in returns the emitter of the event's namespace, where the catalogue tells namespaces apart. A
// catalogue that is one namespace's gives the event that namespace.
func (e *Emitter) in(event *Event, bad *InvalidError) *Emitter {
	if one, ok := e.catalogue.(interface{ Namespace() string }); ok && one.Namespace() != "" {
		if event.Namespace != "" && event.Namespace != one.Namespace() {
			bad.add("namespace", "must be %s, whose catalogue the emitter has, not %q", one.Namespace(), short.Name(event.Namespace))
		}
		event.Namespace = one.Namespace()
		return e
	}
	several, ok := e.catalogue.(interface {
		In(namespace string) Catalogue
	})
	if !ok {
		return e
	}
	one := *e
	one.catalogue = several.In(event.Namespace)
	return &one
}

// Validate checks an event without a database, as Prepare does.
func (e *Emitter) Validate(event Event) error {
	_, err := e.Prepare(event)
	return err
}

func (e *Emitter) checkType(event Event, bad *InvalidError) (aggregate, topic string) {
	aggregate, topic, known := e.catalogue.Resolve(event.Type)
	switch {
	case event.Type == "":
		bad.add("type", "is required")
	case !known:
		bad.add("type", "%q is not a known event type", short.Name(event.Type))
	case event.AggregateType != "" && event.AggregateType != aggregate:
		bad.add("aggregateType", "must be %s for %s, not %q", aggregate, event.Type, short.Name(event.AggregateType))
	}
	e.checkAggregateID(event, known && aggregate == "", bad)
	return aggregate, topic
}

// checkAggregateID leaves to the database what only it knows: whether its column holds
// UUIDs, integers or text.
func (e *Emitter) checkAggregateID(event Event, none bool, bad *InvalidError) {
	const field = "aggregateId"
	ids, strict := e.catalogue.(interface{ CheckAggregateID(id string) error })
	switch {
	case none && event.AggregateID != "":
		bad.add(field, "must be left out: %s is about no aggregate", event.Type)
	case none:
	case event.AggregateID == "" || event.AggregateID == uuid.Nil.String():
		bad.add(field, "is required and must not be the nil uuid")
	case strict:
		if err := ids.CheckAggregateID(event.AggregateID); err != nil {
			bad.add(field, "%s", err)
		}
	default:
		checkText(field, event.AggregateID, maxAggregateIDBytes, bad)
	}
}

func checkScope(event Event, bad *InvalidError) {
	checkText("namespace", event.Namespace, maxNamespaceBytes, bad)
	checkText("dedupeKey", event.DedupeKey, maxDedupeKeyBytes, bad)
	if event.TenantID != uuid.Nil && event.DedupeKey != "" && !strings.HasPrefix(event.DedupeKey, event.TenantID.String()+"/") {
		bad.add("dedupeKey", "must start with the tenant: %s/", event.TenantID)
	}
}

// orderedBy is what comes before the aggregate's id in the ordering key, where the event or the
// catalogue says that aggregates keep their order. The topic is part of it, so that a topic that
// stands still stops only itself. The database adds the id as its column prints it: two spellings
// of a UUID or of a number are one aggregate.
func (e *Emitter) orderedBy(event Event, aggregate, topic string, bad *InvalidError) string {
	ordered, ok := e.catalogue.(interface {
		OrderedByAggregate(eventType string) bool
	})
	switch byAggregate := event.ByAggregate || ok && ordered.OrderedByAggregate(event.Type); {
	case event.ByAggregate && event.OrderingKey != "":
		bad.add("orderingKey", "must be empty beside byAggregate")
	case event.ByAggregate && topic != "" && aggregate == "":
		bad.add("byAggregate", "must be left out: %s is about no aggregate", event.Type)
	case byAggregate && event.OrderingKey == "":
		return topic + "/" + aggregate + "/"
	}
	return ""
}

func checkText(field, text string, most int, bad *InvalidError) {
	switch {
	case len(text) > most:
		bad.add(field, "has %d bytes, at most %d are allowed", len(text), most)
	case !utf8.ValidString(text):
		bad.add(field, "is not valid UTF-8")
	case strings.IndexByte(text, 0) >= 0:
		bad.add(field, "holds a NUL character, which PostgreSQL cannot store")
	}
}

func (e *Emitter) checkHeaders(event Event, bad *InvalidError) {
	headers, most := event.Headers, e.Limits.Attributes-wire.StandardAttributes
	if event.OrderingKey != "" {
		most--
	}
	cloudEvent := e.cloudEventsSource(event.Type) != ""
	if cloudEvent {
		most -= wire.CloudEventAttributes
	}
	if len(headers) > most {
		bad.TooLarge = &wire.TooLargeError{What: "headers", Size: len(headers), Max: most, Unit: "headers"}
		bad.add("headers", "has %d entries, at most %d are allowed", len(headers), most)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field, value := "headers."+short.Name(name), headers[name]
		switch err := e.Limits.CheckAttribute(name, value).(type) { //nolint:errorlint // made there, never wrapped
		case *wire.TooLargeError:
			bad.TooLarge = err
			bad.add(field, "is too large: %s", err)
		case *wire.AttributeError:
			bad.add(field, "%s", err.Problem)
		default:
			if wire.IsStandardAttribute(name) || cloudEvent && wire.IsCloudEventAttribute(name) {
				bad.add(field, "is an attribute the publisher sets")
			}
			if strings.IndexByte(name+value, 0) >= 0 {
				bad.add(field, "holds a NUL character, which PostgreSQL cannot store")
			}
		}
	}
}

// cloudEventsSource is set where the type's messages are CloudEvents.
func (e *Emitter) cloudEventsSource(eventType string) string {
	if c, ok := e.catalogue.(interface {
		CloudEventsSource(eventType string) string
	}); ok {
		return c.CloudEventsSource(eventType)
	}
	return ""
}

// checkSize measures the message that a body of that many bytes will be. The database
// sets created_at: the longest text it can be printed as is assumed, and any event's id
// is as long as another.
func (e *Emitter) checkSize(event Event, aggregate string, body int, bad *InvalidError) {
	longest := time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	row := wire.Row{
		ID: uuid.Nil.String(), EventType: event.Type, AggregateType: aggregate, AggregateID: event.AggregateID,
		Namespace: cmp.Or(event.Namespace, "default"), DedupeKey: event.DedupeKey, CreatedAt: longest, Headers: event.Headers,
		CloudEventsSource: e.cloudEventsSource(event.Type),
	}
	if event.TenantID != uuid.Nil {
		row.TenantID = event.TenantID.String()
	}
	key := 0
	if event.OrderingKey != "" {
		row.Seq, key = math.MaxInt64, len(row.Namespace)+1+len(event.OrderingKey)
	}
	attrs := wire.Attributes(row)
	if errors.As(e.Limits.CheckTogether(attrs), &bad.TooLarge) {
		bad.add("headers", "%s", bad.TooLarge)
	} else if errors.As(e.Limits.CheckSize(wire.MessageBytes(body, attrs)+key), &bad.TooLarge) {
		bad.add("data", "is too large: a message of %d bytes with its attributes, at most %d are allowed", bad.TooLarge.Size, bad.TooLarge.Max)
	}
}

// Catalogue knows the event types. Those of package catalogue are some.
type Catalogue interface {
	// Resolve returns the aggregate type and the logical topic of an event type.
	Resolve(eventType string) (aggregateType, topic string, ok bool)
	// Validate checks the envelope's data against the type's payload. What is wrong
	// with data is a *wire.PayloadError.
	Validate(eventType string, data json.RawMessage) error
	// One that also has CheckAggregateID(id string) error says which ids there can be.
	// Without it any text passes that the database may be able to store.
	// One that also has In(namespace string) Catalogue is asked for that of each event's
	// namespace; one with WithoutEnvelope(eventType string) bool says which types are
	// stored as bare data, one with OrderedByAggregate(eventType string) bool which keep
	// the order of their aggregate, one with CloudEventsSource(eventType string) string
	// whose messages are CloudEvents, which takes some of the room for headers.
}
