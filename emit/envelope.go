package emit

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// envelope builds payload_json and counts the bytes PostgreSQL will print for it.
func (e *Emitter) envelope(p Event, id uuid.UUID, known bool, bad *InvalidError) (json.RawMessage, int) {
	data, size := e.data(p, known, bad)
	occurred := p.OccurredAt
	if occurred.IsZero() {
		occurred = e.Now()
	}
	occurred = occurred.UTC()
	at, err := occurred.MarshalJSON()
	if err != nil || occurred.Year() < 1 {
		bad.add("occurredAt", "is outside the years 1 to 9999")
	}
	actor := checkActor(p.Actor, bad)
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

// data turns the payload into JSON that both the catalogue and jsonb accept.
func (e *Emitter) data(p Event, known bool, bad *InvalidError) (json.RawMessage, int) {
	var data json.RawMessage
	switch d := p.Data.(type) {
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
		var p *jsonb.Error
		if errors.As(err, &p) {
			bad.add(p.Path, "%s", p.Problem)
		}
		return nil, 0
	}
	if !known {
		return data, size
	}
	if err := e.catalogue.Validate(p.Type, data); err != nil {
		var payload *wire.PayloadError
		if !errors.As(err, &payload) {
			bad.add("data", "is refused: %s", err)
			return nil, 0
		}
		bad.Problems = append(bad.Problems, payload.Problems...)
	}
	return data, size
}

func checkActor(a *wire.Actor, bad *InvalidError) json.RawMessage {
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
// It is put together by hand: the envelope is checked JSON already, and encoding it
// a second time costs more than everything else here.
func (p Event) row(id uuid.UUID, aggregate string, envelope json.RawMessage) (json.RawMessage, error) {
	row := make([]byte, 0, len(envelope)+len(p.DedupeKey)+320)
	row = append(append(row, `{"id":"`...), id.String()...)
	row = append(append(row, `","event_type":"`...), p.Type...)
	row = append(append(row, `","aggregate_type":"`...), aggregate...)
	row = append(append(row, `","aggregate_id":"`...), p.AggregateID.String()...)
	row = append(append(row, `","payload":`...), envelope...)
	if p.TenantID != uuid.Nil {
		row = append(append(append(row, `,"tenant_id":"`...), p.TenantID.String()...), '"')
	}
	rest := struct {
		Namespace   string            `json:"namespace"`
		DedupeKey   string            `json:"dedupe_key,omitempty"`
		Headers     map[string]string `json:"headers,omitempty"`
		MaxAttempts int               `json:"max_attempts,omitempty"`
	}{p.namespace(), p.DedupeKey, p.Headers, p.MaxAttempts}
	text, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	return append(append(row, ','), text[1:]...), nil
}
