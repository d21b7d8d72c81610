package consumer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/consume"
)

// envelopeVersion is the version of the envelope this worker understands.
const envelopeVersion = 1

// Event is a message, checked.
type Event struct {
	ID          uuid.UUID
	Type        string
	AggregateID string
	CreatedAt   time.Time // zero when the attribute is missing
	OccurredAt  time.Time
	Data        json.RawMessage
}

// MalformedError is a message that no redelivery can mend. It names the field
// and never shows a value.
type MalformedError struct {
	Field   string
	Problem string
}

func (e *MalformedError) Error() string { return "malformed message: " + e.Field + " " + e.Problem }

// parseAttributes reads what decides whether the body is of interest at all.
func parseAttributes(attrs map[string]string) (Event, error) {
	var e Event
	id, err := uuid.Parse(attrs[consume.AttrEventID])
	if err != nil || id == uuid.Nil {
		return e, &MalformedError{"attribute " + consume.AttrEventID, "is missing or not a uuid"}
	}
	if attrs[consume.AttrEventType] == "" {
		return e, &MalformedError{"attribute " + consume.AttrEventType, "is missing"}
	}
	e.ID, e.Type, e.AggregateID = id, attrs[consume.AttrEventType], attrs[consume.AttrAggregateID]
	// The time is for the lag metric only; a message without it is still good.
	e.CreatedAt, _ = time.Parse(time.RFC3339Nano, attrs[consume.AttrCreatedAt])
	return e, nil
}

// parseBody reads the envelope. It is a tolerant reader: fields it does not
// know are somebody else's, a version it does not know is not.
func (e *Event) parseBody(body []byte) error {
	var envelope struct {
		Version    *int            `json:"version"`
		EventID    string          `json:"eventId"`
		OccurredAt time.Time       `json:"occurredAt"`
		Data       json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return &MalformedError{"body", "is not a JSON envelope"}
	}
	switch {
	case envelope.Version == nil:
		return &MalformedError{"version", "is missing"}
	case *envelope.Version != envelopeVersion:
		return &MalformedError{"version", fmt.Sprintf("%d is unknown, %d is understood", *envelope.Version, envelopeVersion)}
	case len(envelope.Data) == 0 || bytes.Equal(envelope.Data, []byte("null")):
		return &MalformedError{"data", "is missing"}
	}
	// Two ids for one event would let its duplicates pass for different events.
	if id, err := uuid.Parse(envelope.EventID); err != nil || id != e.ID {
		return &MalformedError{"eventId", "is not the event_id of the attributes"}
	}
	e.OccurredAt, e.Data = envelope.OccurredAt, envelope.Data
	return nil
}
