package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// actionReveal is in the audit when an operator looked at what an event carries.
const actionReveal = "payload.reveal"

// RevealParams names what is to be revealed, to whom and why.
type RevealParams struct {
	// ID is a dead letter's or an event's.
	ID          string
	Actor, Note string
	// Detail goes to the audit row.
	Detail map[string]any
}

// RevealResult is what an event carries.
type RevealResult struct {
	EventID string          `json:"eventId"`
	Payload json.RawMessage `json:"payload"`
	Headers json.RawMessage `json:"headers"`
}

// The function writes the audit row in the same statement. No row: there is nothing with the id.
const callReveal = `SELECT event_id::text, payload, headers FROM outbox_reveal($1::uuid, $2, $3, $4::jsonb) WHERE event_id IS NOT NULL`

// Reveal returns what an event carries, and leaves an audit row that says who saw it and why. There
// is no one without the other.
func (o *Outbox) Reveal(ctx context.Context, p RevealParams) (RevealResult, error) {
	id, err := outbox.ParseID(p.ID)
	if err != nil {
		return RevealResult{}, err
	}
	if strings.TrimSpace(p.Note) == "" {
		return RevealResult{}, fault.Usagef("note: say why, for the audit trail")
	}
	if id, err = o.Complete(ctx, id); err != nil {
		return RevealResult{}, err
	}
	var r RevealResult
	var payload, headers *string
	err = o.DB.QueryRow(ctx, callReveal, id, p.Actor, p.Note, outbox.JSON{Of: p.Detail}).Scan(&r.EventID, &payload, &headers)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r, fault.NotFoundf("no event or dead letter %s", id)
	case err != nil:
		return r, fmt.Errorf("reveal: %w", err)
	}
	if payload == nil {
		return r, fault.Preconditionf("event %s was erased: there is nothing to show", r.EventID)
	}
	r.Payload = json.RawMessage(*payload)
	if headers != nil {
		r.Headers = json.RawMessage(*headers)
	}
	return r, nil
}
