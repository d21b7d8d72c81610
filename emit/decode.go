package emit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/internal/short"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// DecodeEvent reads an event from its JSON form: type, aggregateId, aggregateType,
// data, dedupeKey, tenantId, namespace, headers, occurredAt, actor, orderingKey,
// byAggregate and deliverAt, exactly so spelled. Any other name is refused, because a misspelt
// dedupeKey that is silently dropped doubles events. A refused text gives an *InvalidError.
func DecodeEvent(text []byte) (Event, error) {
	members, err := jsonb.Members(text, "")
	if err != nil {
		var p *jsonb.Error
		if !errors.As(err, &p) {
			return Event{}, err
		}
		field := cmp.Or(strings.TrimPrefix(p.Path, "."), "event")
		return Event{}, &InvalidError{Problems: wire.Problems{{Field: field, Problem: p.Problem}}}
	}
	var p Event
	bad := &InvalidError{}
	for _, m := range members {
		decodeEventField(&p, m, bad)
	}
	if len(bad.Problems) > 0 {
		return Event{}, bad
	}
	return p, nil
}

var integer = regexp.MustCompile(`^-?[0-9]{1,19}$`)

// isNull reports whether a member counts as absent. Data alone may not be null.
func isNull(m jsonb.Member) bool { return string(m.Value) == "null" }

func decodeEventField(p *Event, m jsonb.Member, bad *InvalidError) {
	switch m.Name {
	case "type":
		p.Type = decodeText(m, bad)
	case "aggregateType":
		p.AggregateType = decodeText(m, bad)
	case "dedupeKey":
		p.DedupeKey = decodeText(m, bad)
	case "namespace":
		p.Namespace = decodeText(m, bad)
	case "orderingKey":
		p.OrderingKey = decodeText(m, bad)
	case "byAggregate":
		if err := json.Unmarshal(m.Value, &p.ByAggregate); err != nil {
			bad.add(m.Name, "must be true or false")
		}
	case "aggregateId":
		p.AggregateID = decodeAggregateID(m, bad)
	case "tenantId":
		p.TenantID = decodeID(m, bad)
	case "data":
		p.Data = json.RawMessage(bytes.Clone(m.Value))
	case "headers":
		headers, err := wire.ParseHeaders(m.Value)
		if err != nil {
			bad.add("headers", "is refused: %s", err)
		}
		p.Headers = headers
	case "occurredAt":
		p.OccurredAt = decodeTime(m, bad)
	case "deliverAt":
		p.DeliverAt = decodeTime(m, bad)
	case "actor":
		actor, err := wire.ParseActor(m.Value)
		if envelope, ok := errors.AsType[*wire.EnvelopeError](err); ok {
			bad.add(envelope.Field, "%s", envelope.Problem)
		}
		p.Actor = (*Actor)(actor)
	default:
		bad.add(short.Name(m.Name), "is not a field of an event")
	}
}

func decodeTime(m jsonb.Member, bad *InvalidError) time.Time {
	if isNull(m) {
		return time.Time{}
	}
	at, err := wire.ParseTime(decodeText(m, bad))
	switch {
	case err != nil:
		bad.add(m.Name, "%s", err)
	case at.IsZero(): // the emitter would take it for "not given"
		bad.add(m.Name, "must not be the zero time")
	}
	return at
}

// decodeText reads a string that is not empty: an empty dedupe key or namespace is a variable that
// was not set, not a choice.
func decodeText(m jsonb.Member, bad *InvalidError) string { return decode(m, "a string", bad) }

// decodeAggregateID reads a string or an integer: where ids are integers they are seldom written as
// strings.
func decodeAggregateID(m jsonb.Member, bad *InvalidError) string {
	if id := string(m.Value); integer.MatchString(id) {
		return id
	}
	return decode(m, "a string or an integer", bad)
}

func decode(m jsonb.Member, what string, bad *InvalidError) string {
	s, ok := jsonb.String(m.Value)
	switch {
	case isNull(m):
	case !ok:
		bad.add(m.Name, "must be %s", what)
	case s == "":
		bad.add(m.Name, "must not be empty")
	}
	return s
}

func decodeID(m jsonb.Member, bad *InvalidError) uuid.UUID {
	s := decodeText(m, bad)
	if s == "" {
		return uuid.Nil
	}
	id, err := wire.ParseID(s)
	if err != nil {
		bad.add(m.Name, "%s", err)
	}
	return id
}
