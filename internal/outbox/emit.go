package outbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Bounds of an event's own texts. They keep an index entry far below the size at
// which PostgreSQL refuses it; the database holds the same bounds.
const (
	MaxNamespaceBytes = 255
	MaxDedupeKeyBytes = 1024
)

// EmitParams is an event to be written.
type EmitParams struct {
	// Type is the event type. Required.
	Type string
	// AggregateID is the aggregate the event is about. Required.
	AggregateID uuid.UUID
	// AggregateType may be left empty: the catalogue knows it. When set it must
	// be the type's.
	AggregateType string
	// Data is the payload: a json.RawMessage or []byte is taken as it is, anything
	// else is marshalled. Required; an event without data carries {}.
	Data any
	// ID is the event's id. Leave it zero to have one made.
	ID uuid.UUID
	// OccurredAt is when it happened; zero means now.
	OccurredAt time.Time
	// Actor says on whose behalf it happened, if anybody's.
	Actor *Actor
	// DedupeKey makes a second event of the same namespace, type and key a
	// no-op. With a tenant it must start with the tenant's id and a slash.
	DedupeKey string
	// TenantID is the tenant the event belongs to; zero means none.
	TenantID uuid.UUID
	// Namespace separates applications that share an outbox; empty means
	// DefaultNamespace.
	Namespace string
	// Headers become extra message attributes, such as traceparent.
	Headers map[string]string
	// MaxAttempts overrides the publisher's maximum for this event; 0 does not.
	MaxAttempts int
}

// EmitResult says what became of an event.
type EmitResult struct {
	// ID is the event's id: of the row just written or, when AlreadyEnqueued, of
	// the row that has had the dedupe key before.
	ID uuid.UUID
	// AlreadyEnqueued says that nothing was written.
	AlreadyEnqueued bool
}

// Prepared is an event that passed every check and is ready to be written.
type Prepared struct {
	ID   uuid.UUID
	Type string
	// Topic is the logical topic the event will be published on.
	Topic string
	row   json.RawMessage
}

// Bytes is what the event weighs in a statement.
func (p Prepared) Bytes() int { return len(p.row) }

// Emitter checks events and writes them. It is safe for concurrent use.
type Emitter struct {
	catalogue Catalogue
	now       func() time.Time
	newID     func() (uuid.UUID, error)
}

// NewEmitter returns an Emitter that checks events against a catalogue. now is asked
// for the time of events that carry none; nil means time.Now.
func NewEmitter(catalogue Catalogue, now func() time.Time) *Emitter {
	if now == nil {
		now = time.Now
	}
	return &Emitter{catalogue: catalogue, now: now, newID: uuid.NewV7}
}

// Prepare checks an event completely, without a database: an error that only
// PostgreSQL finds would abort the caller's transaction. A refused event gives an
// *InvalidError with all its problems.
func (e *Emitter) Prepare(p EmitParams) (Prepared, error) {
	bad := &InvalidError{}
	aggregate, topic := e.checkType(p, bad)
	checkScope(p, bad)
	checkHeaders(p.Headers, bad)
	if p.MaxAttempts < 0 || p.MaxAttempts > 1<<31-1 {
		bad.add("maxAttempts", "must be a positive 32-bit number, or 0 for the publisher's own")
	}

	id, err := p.ID, error(nil)
	if id == uuid.Nil {
		if id, err = e.newID(); err != nil {
			return Prepared{}, fmt.Errorf("make an event id: %w", err)
		}
	}
	envelope, size := e.envelope(p, id, topic != "", bad)
	if len(bad.Problems) == 0 {
		checkSize(MessageBytes(size, p.Headers)+ownAttributeBytes(p.Type, aggregate), bad)
	}
	if len(bad.Problems) > 0 {
		return Prepared{}, bad
	}
	row, err := p.row(id, aggregate, envelope)
	if err != nil {
		return Prepared{}, fmt.Errorf("encode event: %w", err)
	}
	return Prepared{ID: id, Type: p.Type, Topic: topic, row: row}, nil
}

func (p EmitParams) namespace() string {
	if p.Namespace == "" {
		return DefaultNamespace
	}
	return p.Namespace
}

func (e *Emitter) checkType(p EmitParams, bad *InvalidError) (aggregate, topic string) {
	aggregate, topic, known := e.catalogue.Resolve(p.Type)
	switch {
	case p.Type == "":
		bad.add("type", "is required")
	case !known:
		bad.add("type", "%q is not a known event type", shortText(p.Type))
	case p.AggregateType != "" && p.AggregateType != aggregate:
		bad.add("aggregateType", "must be %s for %s, not %q", aggregate, p.Type, shortText(p.AggregateType))
	}
	if p.AggregateID == uuid.Nil {
		bad.add("aggregateId", "is required and must not be the nil uuid")
	}
	return aggregate, topic
}

func checkScope(p EmitParams, bad *InvalidError) {
	checkText("namespace", p.Namespace, MaxNamespaceBytes, bad)
	checkText("dedupeKey", p.DedupeKey, MaxDedupeKeyBytes, bad)
	if p.TenantID != uuid.Nil && p.DedupeKey != "" && !strings.HasPrefix(p.DedupeKey, p.TenantID.String()+"/") {
		bad.add("dedupeKey", "must start with the tenant: %s/", p.TenantID)
	}
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

func checkHeaders(headers map[string]string, bad *InvalidError) {
	if len(headers) > MaxAttributes-ownAttributes {
		bad.TooLarge = &TooLargeError{What: "headers", Size: len(headers), Max: MaxAttributes - ownAttributes, unit: "headers"}
		bad.add("headers", "has %d entries, at most %d are allowed", len(headers), MaxAttributes-ownAttributes)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field, value := "headers."+shortText(name), headers[name]
		switch err := checkAttribute(name, value).(type) { //nolint:errorlint // made here, never wrapped
		case *TooLargeError:
			bad.TooLarge = err
			bad.add(field, "is too large: %s", err)
		case *AttributeError:
			bad.add(field, "%s", err.Problem)
		default:
			if isOwnAttribute(name) {
				bad.add(field, "is an attribute the publisher sets")
			}
			if strings.IndexByte(name+value, 0) >= 0 {
				bad.add(field, "holds a NUL character, which PostgreSQL cannot store")
			}
		}
	}
}

func checkSize(size int, bad *InvalidError) {
	if size > MaxMessageBytes {
		bad.TooLarge = &TooLargeError{What: "message", Size: size, Max: MaxMessageBytes, unit: "bytes with its attributes"}
		bad.add("data", "is too large: a message of %d bytes with its attributes, at most %d are allowed", size, MaxMessageBytes)
	}
}
