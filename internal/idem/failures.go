package idem

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// The states of a Failure: it is tried again, or not until an operator asks for it.
const (
	Failing = "failing"
	GaveUp  = "gave_up"
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
	Failing    int64    `json:"failing"`
	GaveUp     int64    `json:"gaveUp"`
	// FailingSince is the first failure of those that are recorded.
	FailingSince *time.Time `json:"failingSince"`
	LastSeenAt   *time.Time `json:"lastSeenAt"`
}

// Failure is an event that a consumer failed to handle.
type Failure struct {
	Consumer     string    `json:"consumer"`
	EventID      string    `json:"eventId"`
	EventType    string    `json:"eventType"`
	Namespace    string    `json:"namespace"`
	TenantID     string    `json:"tenantId,omitempty"`
	OrderingKey  string    `json:"orderingKey,omitempty"`
	Subscription string    `json:"subscription"`
	State        string    `json:"state"`
	Attempts     int       `json:"attempts"`
	LastError    string    `json:"lastError"`
	FirstAt      time.Time `json:"firstAt"`
	LastAt       time.Time `json:"lastAt"`
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

// ListConsumers lists the consumers that the database knows, and by name those that Redis knows besides.
func (o *Outbox) ListConsumers(ctx context.Context) ([]Consumer, error) {
	rows, err := o.DB.Query(ctx, selectConsumers)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Consumer, err error) {
		err = row.Scan(&c.Consumer, &c.Subscription, &c.Workers, &c.Rate, &c.LagSeconds, &c.Failing, &c.GaveUp, &c.FailingSince, &c.LastSeenAt)
		return c, err
	})
	if err != nil || o.Keeper == nil {
		return list, err
	}
	announced, err := o.Keeper.Consumers(ctx)
	if err != nil { // what the database knows is worth more than an error
		return list, nil //nolint:nilerr // Redis adds names only
	}
	for _, name := range announced {
		if !slices.ContainsFunc(list, func(c Consumer) bool { return c.Consumer == name }) {
			list = append(list, Consumer{Consumer: name})
		}
	}
	slices.SortFunc(list, func(a, b Consumer) int { return strings.Compare(a.Consumer, b.Consumer) })
	return list, nil
}

// FailuresParams narrows what Failures returns; empty fields do not.
type FailuresParams struct {
	Consumer, State, EventType, Namespace, TenantID string
	EventIDs                                        []string
	// Limit is how many at most; 0 means all.
	Limit int
}

// Narrows reports whether a filter is set.
func (p FailuresParams) Narrows() bool { return p.State+p.EventType+p.Namespace+p.TenantID != "" }

// Check reports what is wrong with the params, before anything is opened.
func (p FailuresParams) Check() error {
	if p.State != "" && p.State != Failing && p.State != GaveUp {
		return fault.Usagef("--state: want %s or %s", Failing, GaveUp)
	}
	if p.Limit < 0 {
		return fault.Usagef("--limit: want a number that is not negative")
	}
	if p.Consumer == "" {
		return nil
	}
	return CheckConsumers([]string{p.Consumer})
}

// selectFailures reads by primary key, or by the index on event_id. Ids of events grow with time.
const selectFailures = `
SELECT consumer, event_id::text, event_type, namespace, coalesce(tenant_id, ''), coalesce(ordering_key, ''), subscription, state, attempts,
       last_error, first_at, last_at
  FROM outbox_consumer_failures
 WHERE ($1::text = '' OR consumer = $1) AND ($2::text = '' OR state = $2) AND ($3::text = '' OR event_type = $3)
   AND ($4::text = '' OR namespace = $4) AND ($5::text = '' OR tenant_id = $5) AND ($6::uuid[] IS NULL OR event_id = ANY ($6::uuid[]))
 ORDER BY event_id DESC, consumer LIMIT nullif($7::int, 0)`

// Failures lists what consumers fail on, newest events first.
func (o *Outbox) Failures(ctx context.Context, p FailuresParams) ([]Failure, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if len(p.EventIDs) == 0 {
		p.EventIDs = nil // all of them, which an empty list would not be
	}
	rows, err := o.DB.Query(ctx, selectFailures, p.Consumer, p.State, p.EventType, p.Namespace, p.TenantID, p.EventIDs, p.Limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (f Failure, err error) {
		err = row.Scan(&f.Consumer, &f.EventID, &f.EventType, &f.Namespace, &f.TenantID, &f.OrderingKey, &f.Subscription, &f.State, &f.Attempts,
			&f.LastError, &f.FirstAt, &f.LastAt)
		return f, err
	})
}

// RetryFailures lets a consumer try events as often as before. Their copies are published by republishing them.
func (o *Outbox) RetryFailures(ctx context.Context, consumer string, ids []string) error {
	var changed int64
	return o.DB.QueryRow(ctx, `SELECT outbox_retry_failures($1, $2::uuid[])`, consumer, ids).Scan(&changed)
}
