package wire

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/internal/short"
)

// EnvelopeVersion is the version of the envelope. There is no other.
const EnvelopeVersion = 1

// Envelope is what payload_json holds and what a message's body is. Its shape is
// locked: consumers in other languages rely on it.
type Envelope struct {
	Version    int             `json:"version"`
	EventID    string          `json:"eventId"`
	OccurredAt time.Time       `json:"occurredAt"`
	Actor      *Actor          `json:"actor,omitempty"`
	Data       json.RawMessage `json:"data"`
}

// Actor is the person or service on whose behalf an event happened.
type Actor struct {
	UserID  string `json:"userId"`
	StoreID string `json:"storeId,omitempty"`
	Role    string `json:"role,omitempty"`
}

// EnvelopeError is what is wrong with an envelope. It names the field and never shows a value.
type EnvelopeError struct {
	Field   string
	Problem string
}

func (e *EnvelopeError) Error() string {
	return "invalid envelope: " + e.Field + " " + e.Problem
}

// ParseEnvelope reads an envelope strictly: every field but actor is required, no
// other field is allowed and names are compared exactly, which encoding/json alone
// does not do. Data is left to the catalogue; it is a part of text, not a copy.
// A publisher does this for every event, so it is written for speed.
func ParseEnvelope(text []byte) (Envelope, error) {
	var e Envelope
	members, err := members(text, "payload_json")
	if err != nil {
		return e, err
	}
	for _, m := range members {
		var ok bool
		switch m.Name {
		case "version":
			e.Version, err = strconv.Atoi(string(m.Value))
			if err != nil || e.Version != EnvelopeVersion {
				return e, &EnvelopeError{"version", "must be " + strconv.Itoa(EnvelopeVersion)}
			}
		case "eventId":
			e.EventID, ok = jsonb.String(m.Value)
			if !ok || e.EventID == "" {
				return e, &EnvelopeError{"eventId", "must be the event's id"}
			}
		case "occurredAt":
			at, _ := jsonb.String(m.Value)
			e.OccurredAt, err = ParseTime(at)
			if err != nil {
				return e, &EnvelopeError{"occurredAt", err.Error()}
			}
		case "actor":
			e.Actor, err = ParseActor(m.Value)
			if err != nil {
				return e, err
			}
		case "data":
			e.Data = m.Value
		default:
			return e, &EnvelopeError{short.Name(m.Name), "is not a field of the envelope"}
		}
	}
	switch {
	case e.Version == 0:
		return e, &EnvelopeError{"version", "is required"}
	case e.EventID == "":
		return e, &EnvelopeError{"eventId", "is required"}
	case e.OccurredAt.IsZero():
		return e, &EnvelopeError{"occurredAt", "is required"}
	case e.Data == nil:
		return e, &EnvelopeError{"data", "is required"}
	}
	return e, nil
}

// ParseActor reads the envelope's actor as strictly. Null is no actor: many encoders
// write an absent value so.
func ParseActor(text []byte) (*Actor, error) {
	if string(text) == "null" {
		return nil, nil
	}
	members, err := members(text, "actor")
	if err != nil {
		return nil, err
	}
	var a Actor
	for _, m := range members {
		var into *string
		switch m.Name {
		case "userId":
			into = &a.UserID
		case "storeId":
			into = &a.StoreID
		case "role":
			into = &a.Role
		default:
			return nil, &EnvelopeError{"actor." + short.Name(m.Name), "is not a field of the actor"}
		}
		if json.Unmarshal(m.Value, into) != nil {
			return nil, &EnvelopeError{"actor." + m.Name, "must be a string"}
		}
	}
	if a.UserID == "" {
		return nil, &EnvelopeError{"actor.userId", "is required"}
	}
	return &a, nil
}

func members(text []byte, field string) ([]jsonb.Member, error) {
	found, err := jsonb.Members(text, field)
	if err != nil {
		if p, ok := errors.AsType[*jsonb.Error](err); ok {
			return nil, &EnvelopeError{p.Path, p.Problem}
		}
		return nil, err
	}
	return found, nil
}

// ErrNotID reports a text that is not a UUID. It reads after a field's name.
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

// ErrNotTimestamp reports a text that is not an RFC 3339 timestamp. It reads after a field's name.
var ErrNotTimestamp = errors.New("must be an RFC 3339 timestamp")

// ParseTime reads a timestamp that is RFC 3339, its letters in upper case. The standard
// library also takes an hour of one digit, a comma before the fraction and offsets of
// 24 hours or 60 minutes (https://go.dev/issue/54580).
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, ErrNotTimestamp
	}
	// What time.Parse took is long enough to look at these places.
	const hour, fraction = len("2006-01-02T"), len("2006-01-02T15:04:05")
	if text[hour+1] == ':' || text[fraction] == ',' {
		return time.Time{}, ErrNotTimestamp
	}
	if n := len(text); text[n-1] != 'Z' && (text[n-5:n-3] > "23" || text[n-2:] > "59") {
		return time.Time{}, ErrNotTimestamp
	}
	return t, nil
}

// StoredBytes returns how many bytes data takes once PostgreSQL has stored it as jsonb and prints
// it again: that is what is published. The error names the part of data that jsonb cannot hold.
func StoredBytes(data []byte) (int, error) { return jsonb.Bytes(data, "data") }
