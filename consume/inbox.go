package consume

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// DB is a *pgxpool.Pool, or anything else that begins transactions.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// insertInbox records that the consumer has applied the event. A second
// transaction with the same key waits for the first and then inserts nothing.
const insertInbox = `
INSERT INTO inbox_events (consumer, event_id)
VALUES ($1, $2::uuid)
ON CONFLICT (consumer, event_id) DO NOTHING`

// Once runs effect in a transaction together with the event's row in the table
// inbox_events, so that there is one effect per consumer and event whatever Redis
// remembers. It reports false, without running it, when an earlier delivery did.
// The table is the one that outboxctl migrate creates.
func Once(ctx context.Context, db DB, consumer string, eventID uuid.UUID, effect func(pgx.Tx) error) (applied bool, err error) {
	// The level is explicit: under a default of REPEATABLE READ, two deliveries
	// of one event would meet a serialisation failure in the inbox.
	err = pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertInbox, consumer, eventID.String())
		if err != nil {
			return fmt.Errorf("insert inbox row: %w", err)
		}
		if applied = tag.RowsAffected() == 1; !applied {
			return nil
		}
		return effect(tx)
	})
	return applied && err == nil, err
}
