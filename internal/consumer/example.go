package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
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
	// FailRate in [0,1] makes that share of the transactions fail at their
	// commit, to watch redelivery.
	FailRate float64
	// Random returns a number in [0,1) (default math/rand).
	Random func() float64
}

// errInjected is what FailRate produces.
var errInjected = errors.New("failure injected by the fail rate")

// Handlers of the example's event type.
func (x Example) Handlers() map[string]Handler {
	db := x.DB
	if x.FailRate > 0 {
		if x.Random == nil {
			x.Random = rand.Float64
		}
		db = failingDB{x.DB, func() bool { return x.Random() < x.FailRate }}
	}
	batch := consume.NewBatch(db, x.Consumer, consume.BatchOptions{}, notifications.Write)
	return map[string]Handler{notifications.EventType: func(ctx context.Context, e Event) error {
		applied, err := batch.Once(ctx, e.Event)
		if err == nil && !applied {
			return ErrApplied
		}
		return err
	}}
}

// failingDB begins transactions that fail to commit when fails reports true.
type failingDB struct {
	consume.DB
	fails func() bool
}

func (db failingDB) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := db.DB.BeginTx(ctx, options)
	return failingTx{tx, db.fails}, err
}

type failingTx struct {
	pgx.Tx
	fails func() bool
}

func (tx failingTx) Commit(ctx context.Context) error {
	if tx.fails() {
		return errInjected
	}
	return tx.Tx.Commit(ctx)
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
