package dispatch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// unfit is why a row can never be offered to the broker.
type unfit struct {
	reason outbox.DeadReason
	err    error
	// judged: the row breaks a rule of the catalogue, so only a publisher that has the
	// database's version of it may say so.
	judged bool
}

func (u *unfit) Error() string { return u.err.Error() }

// prepare makes a message of a row, or returns why the row can never be one. It
// returns the topic whenever the type has one, so that a dead row can be
// grouped by it.
func prepare(catalogue Catalogue, limitsOf func(topic string) wire.Limits, row *Claimed) (topic string, msg Message, bad *unfit) {
	t, known := catalogue.Describe(row.Namespace, row.EventType)
	topic = t.Topic
	if !known {
		return "", Message{}, &unfit{outbox.ReasonUnknownEventType, fmt.Errorf("event type %q is not in the catalogue", safetext.Cut(row.EventType, 80)), true}
	}
	if t.Aggregate != row.AggregateType {
		return topic, Message{}, &unfit{outbox.ReasonAggregateMismatch,
			fmt.Errorf("event type %s belongs to aggregate %s, the row says %s", row.EventType, cmp.Or(t.Aggregate, "none"), cmp.Or(row.AggregateType, "none")), true}
	}
	notes, err := checkPayload(catalogue, t, row)
	if err != nil {
		bad := unfitFor(err)
		bad.judged = row.Unreadable == nil // whether there is an envelope, and whose id it has, is the type's to say, too
		return topic, Message{}, bad
	}
	headers, err := wire.ParseHeaders(row.Headers)
	if err != nil {
		return topic, Message{}, &unfit{reason: outbox.ReasonInvalidPayload, err: err}
	}
	row.Notes = notes
	limits := limitsOf(topic)
	from := wire.Row{
		ID: row.ID, EventType: row.EventType, AggregateType: row.AggregateType, AggregateID: row.AggregateID,
		Namespace: row.Namespace, TenantID: row.TenantID, DedupeKey: row.DedupeKey,
		CreatedAt: row.CreatedAt, Headers: headers, CloudEventsSource: t.CloudEventsSource, CloudEventsPrefix: limits.CloudEventsPrefix,
	}
	if row.OrderingKey != "" {
		from.Seq = row.Seq
	}
	msg = Message{
		EventID: row.ID, Data: row.Payload, Attributes: wire.Attributes(from), OrderingKey: row.OrderingKey,
		EventType: row.EventType, AggregateType: row.AggregateType, AggregateID: row.AggregateID,
		Namespace: row.Namespace, TenantID: row.TenantID, DedupeKey: row.DedupeKey,
		Seq: row.Seq, CopyOf: row.CopyOf, Attempt: row.AttemptCount + 1,
	}
	limits.MessageBytes -= len(row.OrderingKey)
	if err := limits.Check(msg.Data, msg.Attributes); err != nil {
		return topic, Message{}, unfitFor(err)
	}
	return topic, msg, nil
}

// unfitFor returns the reason for which a row dies: it is too large, or wrong.
func unfitFor(err error) *unfit {
	if errors.As(err, new(*wire.TooLargeError)) {
		return &unfit{reason: outbox.ReasonMessageTooLarge, err: err}
	}
	return &unfit{reason: outbox.ReasonInvalidPayload, err: err}
}

// checkPayload holds a row to what Emit would have accepted: rows can be
// written by any program with the right to insert.
func checkPayload(catalogue Catalogue, t wire.EventType, row *Claimed) (notes Notes, err error) {
	if row.Unreadable != nil {
		return notes, row.Unreadable
	}
	data := json.RawMessage(row.Payload)
	if !t.Bare {
		envelope, err := wire.ParseEnvelope(row.Payload)
		if err != nil {
			return notes, err
		}
		// Emitters of another program may number the envelope on their own. The attribute
		// event_id is the row's in any case.
		notes.OtherID = !strings.EqualFold(envelope.EventID, row.ID)
		if notes.OtherID && t.RefuseOtherID {
			return notes, &wire.EnvelopeError{Field: "eventId", Problem: "is not the row's id"}
		}
		data = envelope.Data
	}
	notes.ExtraFields, err = catalogue.Check(row.Namespace, row.EventType, data)
	if err != nil && !errors.As(err, new(*wire.PayloadError)) {
		return notes, fmt.Errorf("the payload cannot be checked: %w", err)
	}
	return notes, err
}

// storedError is an error's text as the database keeps it.
func storedError(err error) string { return safetext.Stored(err.Error()) }

// Examine returns why a row would die if a publisher with this catalogue claimed it; an
// empty reason means that it would be sent.
func Examine(catalogue Catalogue, limits func(topic string) wire.Limits, row *Claimed) (reason outbox.DeadReason, err error) {
	if _, _, bad := prepare(catalogue, limits, row); bad != nil {
		return bad.reason, bad
	}
	return "", nil
}
