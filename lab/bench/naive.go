package bench

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	naiveBatch = 50
	// naiveDelay is how long the client library waits for a second message. Its
	// own default is ten times longer and would make the loop slower still.
	naiveDelay = time.Millisecond
)

const (
	naiveSelectSQL = `
SELECT id::text, event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, created_at
  FROM outbox_events
 WHERE published_at IS NULL
 ORDER BY created_at
 LIMIT $1
   FOR UPDATE SKIP LOCKED`

	naiveMarkSQL = `UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid`
)

// RowByRow is the loop most people write first: publish a row, wait, mark it, next.
func RowByRow() bench.Mode {
	return bench.Mode{Name: "row-by-row", Summary: "publish, wait, mark, one row at a time", Inside: true,
		Defaults: bench.Sizes{Events: 2_000}, Measure: one, Loop: rowByRow}
}

// rowByRow is the loop the dispatcher is compared with: one transaction per batch,
// and inside it publish a row, wait for the broker, mark it, take the next.
func rowByRow(ctx context.Context, r *bench.Trial) (time.Duration, error) {
	topic := r.Client.PubSub().Publisher(bench.DomainTopic)
	topic.PublishSettings.DelayThreshold = naiveDelay
	defer topic.Stop()
	began := time.Now()
	for {
		n := 0
		err := pgx.BeginFunc(ctx, r.DB.Pool, func(tx pgx.Tx) error {
			return rig.Carry(func() { n = naiveTurn(ctx, tx, topic) })
		})
		if err != nil {
			return 0, fmt.Errorf("publish row by row: %w", err)
		}
		if n == 0 {
			return time.Since(began), nil
		}
	}
}

type naiveRow struct {
	wire.Row
	payload []byte
}

func naiveTurn(ctx context.Context, tx pgx.Tx, topic *pubsub.Publisher) int {
	found := rig.Must(tx.Query(ctx, naiveSelectSQL, naiveBatch))
	rows := rig.Must(pgx.CollectRows(found, func(row pgx.CollectableRow) (n naiveRow, err error) {
		n.Namespace = bench.Measured
		err = row.Scan(&n.ID, &n.EventType, &n.AggregateType, &n.AggregateID, &n.payload, &n.CreatedAt)
		return n, err
	}))
	for _, row := range rows {
		rig.Must(topic.Publish(ctx, &pubsub.Message{Data: row.payload, Attributes: wire.Attributes(row.Row)}).Get(ctx))
		rig.Must(tx.Exec(ctx, naiveMarkSQL, row.ID))
	}
	return len(rows)
}
