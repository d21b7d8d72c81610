package stats

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Consumer is one consumer with all its workers.
type Consumer struct {
	Consumer string `json:"consumer"`
	// Subscription is where its workers receive from, with commas where that is several; empty where
	// they told nobody.
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

// selectConsumers counts failures and workers. A worker is there while it was seen in the last 20
// seconds.
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
SELECT coalesce(w.consumer, f.consumer) AS consumer, coalesce(w.subscription, f.subscription, '') AS subscription, coalesce(w.workers, 0) AS workers,
       coalesce(w.rate, 0) AS rate, w.lag AS lag_seconds, coalesce(f.failing, 0) AS failing, coalesce(f.gave_up, 0) AS gave_up,
       f.since AS failing_since, w.seen AS last_seen_at
  FROM w FULL JOIN f ON f.consumer = w.consumer ORDER BY 1`

// Consumers lists the consumers that the database knows.
func Consumers(ctx context.Context, db outbox.Querier) ([]Consumer, error) {
	return outbox.Rows[Consumer](ctx, db, "list consumers", selectConsumers)
}
