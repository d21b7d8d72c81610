package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Consumer is one consumer with all its workers.
type Consumer struct {
	Consumer string `json:"consumer"`
	// Subscription is where its workers receive from, with commas where that is several; empty where they told nobody.
	Subscription string `json:"subscription"`
	Workers      int    `json:"workers"`
	// Rate is how many events a second they handled, LagSeconds the age of the oldest of them.
	Rate       float64  `json:"rate"`
	LagSeconds *float64 `json:"lagSeconds"`
	// Backlog is how many messages wait at the broker, where it was asked and can tell.
	Backlog *int64 `json:"backlog,omitempty"`
	Failing int64  `json:"failing"`
	GaveUp  int64  `json:"gaveUp"`
	// FailingSince is the first failure of those that are recorded.
	FailingSince *time.Time `json:"failingSince"`
	LastSeenAt   *time.Time `json:"lastSeenAt"`
}

// selectConsumers counts failures and workers. A worker is there while it was seen in the last 20 seconds.
const selectConsumers = `
WITH w AS (
    SELECT c.consumer, string_agg(DISTINCT c.subscription, ',') AS subscription,
           count(*) FILTER (WHERE alive) AS workers, coalesce(sum(c.rate) FILTER (WHERE alive), 0) AS rate,
           max(c.lag) FILTER (WHERE alive) AS lag, max(c.last_seen_at) AS seen
      FROM (SELECT *, last_seen_at > now() - interval '20 s' AS alive FROM outbox_consumers) AS c GROUP BY c.consumer
), f AS (
    SELECT consumer, min(subscription) AS subscription, count(*) FILTER (WHERE state = 'failing') AS failing,
           count(*) FILTER (WHERE state = 'gave_up') AS gave_up, min(first_at) AS since
      FROM outbox_consumer_failures GROUP BY consumer
)
SELECT coalesce(w.consumer, f.consumer), coalesce(w.subscription, f.subscription, ''), coalesce(w.workers, 0), coalesce(w.rate, 0), w.lag,
       coalesce(f.failing, 0), coalesce(f.gave_up, 0), f.since, w.seen
  FROM w FULL JOIN f ON f.consumer = w.consumer ORDER BY 1`

// Consumers lists the consumers that the database knows.
func Consumers(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) ([]Consumer, error) {
	rows, err := db.Query(ctx, selectConsumers)
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Consumer, err error) {
		err = row.Scan(&c.Consumer, &c.Subscription, &c.Workers, &c.Rate, &c.LagSeconds, &c.Failing, &c.GaveUp, &c.FailingSince, &c.LastSeenAt)
		return c, err
	})
}
