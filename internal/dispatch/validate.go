package dispatch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// unfit is why a row can never be offered to the broker.
type unfit struct {
	reason outbox.DeadReason
	err    error
}

func (u *unfit) Error() string { return u.err.Error() }

// prepare makes a message of a row, or returns why the row can never be one. It
// returns the topic whenever the type has one, so that a dead row can be
// grouped by it.
func prepare(catalogue emit.Catalogue, limits wire.Limits, row *Claimed) (topic string, msg Message, bad *unfit) {
	aggregate, topic, known := catalogue.Resolve(row.EventType)
	if !known {
		return "", Message{}, &unfit{outbox.ReasonUnknownEventType, fmt.Errorf("event type %q is not in the catalogue", row.EventType)}
	}
	if aggregate != row.AggregateType {
		return topic, Message{}, &unfit{outbox.ReasonAggregateMismatch,
			fmt.Errorf("event type %s belongs to aggregate %s, the row says %s", row.EventType, aggregate, row.AggregateType)}
	}
	if err := checkPayload(catalogue, row); err != nil {
		return topic, Message{}, unfitFor(err)
	}
	headers, err := wire.ParseHeaders(row.Headers)
	if err != nil {
		return topic, Message{}, &unfit{outbox.ReasonInvalidPayload, err}
	}
	msg = Message{
		EventID: row.ID, Data: row.Payload,
		Attributes: wire.Attributes(row.ID, row.EventType, row.AggregateType, row.AggregateID, row.CreatedAt, headers),
	}
	if err := limits.Check(msg.Data, msg.Attributes); err != nil {
		return topic, Message{}, unfitFor(err)
	}
	return topic, msg, nil
}

// unfitFor tells what is too large from what is wrong.
func unfitFor(err error) *unfit {
	var tooLarge *wire.TooLargeError
	if errors.As(err, &tooLarge) {
		return &unfit{outbox.ReasonMessageTooLarge, err}
	}
	return &unfit{outbox.ReasonInvalidPayload, err}
}

// checkPayload holds a row to what Emit would have accepted: rows can be
// written by any program with the right to insert.
func checkPayload(catalogue emit.Catalogue, row *Claimed) error {
	if row.Unreadable != nil {
		return row.Unreadable
	}
	envelope, err := wire.ParseEnvelope(row.Payload)
	if err != nil {
		return err
	}
	if !strings.EqualFold(envelope.EventID, row.ID) {
		return &wire.EnvelopeError{Field: "eventId", Problem: "is not the row's id"}
	}
	return catalogue.Validate(row.EventType, envelope.Data)
}

// storedError is an error's text as the database keeps it.
func storedError(err error) string { return safetext.Stored(err.Error()) }
