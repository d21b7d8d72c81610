package dlq

import (
	"context"
	"encoding/json"
	"fmt"
)

// Correction is a new event that takes the place of a dead one.
type Correction struct {
	// ID is the dead letter's.
	ID string
	// EventID is the new event's.
	EventID string
	// Payload and Headers are the new event's, as they are stored.
	Payload, Headers json.RawMessage
	Actor, Note      string
	// Detail goes to the audit row.
	Detail map[string]any
}

// Correct emits the new event and discards the dead letter, in one transaction with one audit row. The answer has the id
// of the event that stands for the dead one: another than the correction's when another operator was faster.
//
// It does not stop when ctx is cancelled.
func (o *Outbox) Correct(ctx context.Context, c Correction) (Outcome, error) {
	detail, err := json.Marshal(c.Detail)
	if err != nil {
		return Outcome{}, fmt.Errorf("encode audit detail: %w", err)
	}
	outcome := Outcome{ID: c.ID}
	args := []any{c.ID, c.EventID, string(c.Payload), string(c.Headers), c.Actor, c.Note, string(detail)}
	if err := o.change(ctx, callCorrect, args, &outcome.EventID, &outcome.Outcome); err != nil {
		return Outcome{}, fmt.Errorf("correct the event: %w", err)
	}
	return outcome, nil
}
