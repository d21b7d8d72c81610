package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/rfc3339"
)

// DecodeEvent reads an event from its JSON form: type, aggregateId, aggregateType,
// data, dedupeKey, tenantId, namespace, headers, occurredAt and actor, exactly so
// spelled. Any other name is refused, because a misspelt dedupeKey that is silently
// dropped doubles events. A refused text gives an *InvalidError.
func DecodeEvent(text []byte) (EmitParams, error) {
	members, err := jsonMembers(text, "")
	if err != nil {
		var p *jsonError
		if !errors.As(err, &p) {
			return EmitParams{}, err
		}
		field := strings.TrimPrefix(p.path, ".")
		if field == "" {
			field = "event"
		}
		return EmitParams{}, &InvalidError{Problems: []FieldProblem{{field, p.problem}}}
	}
	var p EmitParams
	bad := &InvalidError{}
	for _, m := range members {
		if string(m.value) == "null" && m.name != "data" && isEventField(m.name) {
			continue
		}
		decodeEventField(&p, m, bad)
	}
	if len(bad.Problems) > 0 {
		return EmitParams{}, bad
	}
	return p, nil
}

func isEventField(name string) bool {
	switch name {
	case "type", "aggregateId", "aggregateType", "data", "dedupeKey", "tenantId", "namespace", "headers", "occurredAt", "actor":
		return true
	}
	return false
}

func decodeEventField(p *EmitParams, m jsonMember, bad *InvalidError) {
	switch m.name {
	case "type":
		p.Type = decodeText(m, bad)
	case "aggregateType":
		p.AggregateType = decodeText(m, bad)
	case "dedupeKey":
		p.DedupeKey = decodeText(m, bad)
	case "namespace":
		p.Namespace = decodeText(m, bad)
	case "aggregateId":
		p.AggregateID = decodeID(m, bad)
	case "tenantId":
		p.TenantID = decodeID(m, bad)
	case "data":
		p.Data = json.RawMessage(bytes.Clone(m.value))
	case "headers":
		headers, err := ParseHeaders(m.value)
		if err != nil {
			bad.add("headers", "is refused: %s", err)
		}
		p.Headers = headers
	case "occurredAt":
		at, err := rfc3339.Parse(decodeText(m, bad))
		switch {
		case err != nil:
			bad.add(m.name, "%s", err)
		case at.IsZero(): // the emitter would take it for "not given"
			bad.add(m.name, "must not be the zero time")
		}
		p.OccurredAt = at
	case "actor":
		actor, err := parseActor(m.value)
		var envelope *EnvelopeError
		if errors.As(err, &envelope) {
			bad.add(envelope.Field, "%s", envelope.Problem)
		}
		p.Actor = actor
	default:
		bad.add(shortText(m.name), "is not a field of an event")
	}
}

// decodeText reads a string that is not empty: an empty dedupe key or namespace is
// a variable that was not set, not a choice.
func decodeText(m jsonMember, bad *InvalidError) string {
	s, ok := jsonString(m.value)
	if !ok {
		bad.add(m.name, "must be a string")
		return ""
	}
	if s == "" {
		bad.add(m.name, "must not be empty")
	}
	return s
}

func decodeID(m jsonMember, bad *InvalidError) uuid.UUID {
	s := decodeText(m, bad)
	if s == "" {
		return uuid.Nil
	}
	id, err := ParseID(s)
	if err != nil {
		bad.add(m.name, "%s", err)
	}
	return id
}

// ErrNotID says that a text is no UUID; it reads after a field's name.
var ErrNotID = errors.New("must be a uuid, and not the nil uuid")

// ParseID reads a UUID in its canonical form. Other spellings name the same id but
// do not compare equal as text, which is what attributes and keys are.
func ParseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 || id == uuid.Nil {
		return uuid.Nil, ErrNotID
	}
	return id, nil
}
