package consumer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
)

// Example runs examples/notifications in a Worker.
type Example struct {
	// Consumer is the name in inbox rows.
	Consumer string
	// DB takes the effects.
	DB consume.DB
}

// Handlers of the example's event type.
func (x Example) Handlers() map[string]Handler {
	batch := consume.NewBatch(x.DB, x.Consumer, consume.BatchOptions{}, notifications.Write)
	return map[string]Handler{notifications.EventType: func(ctx context.Context, e Event) error {
		applied, err := batch.Once(ctx, e.Event)
		if err == nil && !applied {
			return ErrApplied
		}
		return err
	}}
}

// exampleTables fails to parse when a table or a column is missing, and reads nothing.
const exampleTables = `
SELECT i.consumer, i.event_id, n.id, n.type, n.audience, n.store_id, n.license_id, n.status, n.reason, n.message, n.event_id
  FROM inbox_events AS i, notifications AS n
 WHERE false`

// CheckTables reports whether the database has the tables the example writes to.
func CheckTables(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, exampleTables); err != nil {
		return fmt.Errorf("check the consumer's tables: %w", err)
	}
	return nil
}
