package cmd

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/operate"
)

func newIdemCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "idem",
		Short: "Show and forget which events consumers have processed",
	}
	cmd.AddCommand(
		newIdemShowCmd(app, runIdemShow),
		newIdemForgetCmd(app, runIdemForget),
	)
	return cmd
}

// keeperError says what an unreachable Redis means here.
func keeperError(err error) error {
	return fault.Hint(fault.As(fault.Precondition, err), "outboxctl config view shows where redis.url comes from; outboxctl dev starts a local stack")
}

func parseEventID(text string) (uuid.UUID, error) {
	id, err := operate.ParseID(text)
	if err != nil {
		return uuid.Nil, err
	}
	return uuid.Parse(id)
}

// eventBehind is the event that an id means: a dead letter's id leads to its event, any other is the event's own. Without
// a database nobody can tell, and it is taken for the event's.
func eventBehind(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID) (uuid.UUID, error) {
	if pool == nil {
		return id, nil
	}
	event, err := dlq.NewStore(pool).EventID(ctx, id.String())
	if err != nil {
		return uuid.Nil, operate.StoreError(err)
	}
	return uuid.Parse(event)
}

// inboxSQL is what the database knows about an event, by consumer.
const inboxSQL = `SELECT consumer, processed_at FROM inbox_events WHERE event_id = $1::uuid AND consumer = ANY ($2::text[])`

// consumersSQL walks the distinct consumers of the inbox by its primary key, one index probe each.
const consumersSQL = `
WITH RECURSIVE c AS (
    (SELECT consumer FROM inbox_events ORDER BY consumer LIMIT 1)
    UNION ALL
    SELECT (SELECT i.consumer FROM inbox_events AS i WHERE i.consumer > c.consumer ORDER BY i.consumer LIMIT 1)
      FROM c WHERE c.consumer IS NOT NULL)
SELECT consumer FROM c WHERE consumer IS NOT NULL`

// knownConsumers are the names in Redis and in the inbox. Without a database the inbox has none to add.
func knownConsumers(ctx context.Context, keeper *idem.Keeper, pool *pgxpool.Pool) ([]string, error) {
	names, err := keeper.Consumers(ctx)
	if err != nil {
		return nil, keeperError(err)
	}
	if pool != nil {
		rows, err := pool.Query(ctx, consumersSQL)
		if err != nil {
			return nil, operate.StoreError(err)
		}
		inbox, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, operate.StoreError(err)
		}
		names = append(names, inbox...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
