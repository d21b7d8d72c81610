package dlq

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Correction is a new event that takes the place of a dead one.
type Correction struct {
	// ID is the dead letter's.
	ID string
	// EventID is the new event's.
	EventID string
	// Payload and Headers are the new event's, as they are stored.
	Payload, Headers json.RawMessage
	Who              Who
	// Detail goes to the audit row.
	Detail map[string]any
}

// Correct emits the new event and discards the dead letter, in one transaction with one audit row. The answer has the id
// of the event that stands for the dead one: another than the correction's when another operator was faster.
//
// Like Act it does not stop when ctx is cancelled.
func (s *Store) Correct(ctx context.Context, c Correction) (Outcome, error) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	detail, err := json.Marshal(c.Detail)
	if err != nil {
		return Outcome{}, fmt.Errorf("encode audit detail: %w", err)
	}
	outcome := Outcome{ID: c.ID}
	err = pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, callCorrect, c.ID, c.EventID, string(c.Payload), string(c.Headers), c.Who.Actor, c.Who.Reason, string(detail)).
			Scan(&outcome.EventID, &outcome.Outcome)
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("correct the event: %w", err)
	}
	return outcome, nil
}
