package emit

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// envelope builds payload_json and counts the bytes PostgreSQL will print for it.
func (e *Emitter) envelope(event Event, id uuid.UUID, known bool, bad *InvalidError) (json.RawMessage, int) {
	data, size := e.data(event, known, bad)
	if bare, ok := e.catalogue.(interface{ WithoutEnvelope(eventType string) bool }); ok && bare.WithoutEnvelope(event.Type) {
		checkBare(event, bad)
		return data, size
	}
	occurred := event.OccurredAt
	if occurred.IsZero() {
		occurred = e.Now()
	}
	occurred = occurred.UTC()
	at, err := occurred.MarshalJSON()
	if err != nil || occurred.Year() < 1 {
		bad.add("occurredAt", "is outside the years 1 to 9999")
	}
	actor := checkActor(event.Actor, bad)
	if len(bad.Problems) > 0 {
		return nil, 0
	}

	text := make([]byte, 0, len(data)+len(actor)+160)
	text = append(text, `{"version":`...)
	text = strconv.AppendInt(text, wire.EnvelopeVersion, 10)
	text = append(text, `,"eventId":"`...)
	text = append(text, id.String()...)
	text = append(text, `","occurredAt":`...)
	text = append(text, at...)
	members := 4
	if actor != nil {
		text = append(append(text, `,"actor":`...), actor...)
		n, err := jsonb.Bytes(actor, "actor")
		if err != nil {
			bad.add("actor", "%s", err)
		}
		size += n - len(actor)
		members++
	}
	text = append(text, `,"data":`...)
	// What is there so far is ours and compact: jsonb adds a space per colon and
	// per comma of the outer object.
	size += len(text) + len(`}`) + members + members - 1
	return append(append(text, data...), '}'), size
}

// checkBare refuses what only an envelope has a place for.
func checkBare(event Event, bad *InvalidError) {
	if !event.OccurredAt.IsZero() {
		bad.add("occurredAt", "has no place in an event without an envelope")
	}
	if event.Actor != nil {
		bad.add("actor", "has no place in an event without an envelope")
	}
}

// inflation is how many times its own length data may print as. The table refuses rows that print
// as eight times what they are stored in (OX104); a number is stored in at least twice its shortest
// text.
const inflation = 16

// data turns the payload into JSON that both the catalogue and jsonb accept.
func (e *Emitter) data(event Event, known bool, bad *InvalidError) (json.RawMessage, int) {
	var data json.RawMessage
	switch d := event.Data.(type) {
	case json.RawMessage:
		data = d
	case []byte:
		data = d
	case nil:
	default:
		text, err := json.Marshal(d)
		if err != nil {
			bad.add("data", "cannot be marshalled: %s", err)
			return nil, 0
		}
		data = text
	}
	if len(data) == 0 {
		bad.add("data", "is required; an event without data carries {}")
		return nil, 0
	}
	size, err := jsonb.Bytes(data, "data")
	if err != nil {
		if refused, ok := errors.AsType[*jsonb.Error](err); ok {
			bad.add(refused.Path, "%s", refused.Problem)
		}
		return nil, 0
	}
	if size > inflation*len(data)+4096 {
		bad.add("data", "makes %d bytes of %d when its numbers are written out; send them as strings", size, len(data))
		return nil, 0 // a schema would calculate with them, for minutes
	}
	if !known {
		return data, size
	}
	if err := e.catalogue.Validate(event.Type, data); err != nil {
		var payload *wire.PayloadError
		if !errors.As(err, &payload) {
			bad.add("data", "is refused: %s", err)
			return nil, 0
		}
		bad.Problems = append(bad.Problems, payload.Problems...)
	}
	return data, size
}

func checkActor(a *Actor, bad *InvalidError) json.RawMessage {
	if a == nil {
		return nil
	}
	if a.UserID == "" {
		bad.add("actor.userId", "is required")
	}
	checkText("actor.userId", a.UserID, maxActorBytes, bad)
	checkText("actor.storeId", a.StoreID, maxActorBytes, bad)
	checkText("actor.role", a.Role, maxActorBytes, bad)
	text, err := json.Marshal(a)
	if err != nil {
		bad.add("actor", "cannot be marshalled: %s", err)
	}
	return text
}

// row builds one element of the array that the SQL function outbox_emit_many takes.
// The envelope is put in by hand: it is checked JSON already, and encoding it a second
// time costs more than everything else here.
func (event Event) row(id uuid.UUID, aggregate, orderedBy string, envelope json.RawMessage) (json.RawMessage, error) {
	columns := struct {
		ID            uuid.UUID         `json:"id"`
		EventType     string            `json:"event_type"`
		AggregateType string            `json:"aggregate_type"`
		AggregateID   string            `json:"aggregate_id"`
		TenantID      uuid.UUID         `json:"tenant_id,omitzero"`
		Namespace     string            `json:"namespace"`
		DedupeKey     string            `json:"dedupe_key,omitempty"`
		Headers       map[string]string `json:"headers,omitempty"`
		MaxAttempts   int               `json:"max_attempts,omitempty"`
		OrderingKey   string            `json:"ordering_key,omitempty"`
		OrderedBy     string            `json:"ordered_by,omitempty"`
		DeliverAt     time.Time         `json:"deliver_at,omitzero"`
	}{
		id, event.Type, aggregate, event.AggregateID, event.TenantID, cmp.Or(event.Namespace, "default"),
		event.DedupeKey, event.Headers, event.MaxAttempts, event.OrderingKey, orderedBy, event.DeliverAt.UTC(),
	}
	if orderedBy != "" {
		columns.OrderingKey = ""
	}
	text, err := json.Marshal(columns)
	if err != nil {
		return nil, err
	}
	const payload = `,"payload":`
	row := append(make([]byte, 0, len(text)+len(payload)+len(envelope)), text[:len(text)-1]...)
	return append(append(append(row, payload...), envelope...), '}'), nil
}
