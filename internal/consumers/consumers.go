// Package consumers is who handles events, as an operator sees it: which consumers run and how far
// behind they are, and what they fail on.
package consumers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// The states of a Failure: it is tried again, or not until an operator asks for it.
const (
	Failing = "failing"
	GaveUp  = "gave_up"
)

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

// List lists the consumers that the database knows, and by name those that Redis knows besides.
func List(ctx context.Context, o *idem.Outbox) ([]stats.Consumer, error) {
	list, err := stats.Consumers(ctx, o.DB)
	if err != nil || o.Keeper == nil {
		return list, err
	}
	announced, err := o.Keeper.Consumers(ctx)
	if err != nil { // what the database knows is worth more than an error
		return list, nil // Redis adds names only
	}
	for _, name := range announced {
		if !slices.ContainsFunc(list, func(c stats.Consumer) bool { return c.Consumer == name }) {
			list = append(list, stats.Consumer{Consumer: name})
		}
	}
	slices.SortFunc(list, func(a, b stats.Consumer) int { return strings.Compare(a.Consumer, b.Consumer) })
	return list, nil
}

// measureLimit is how long the broker is asked, for all consumers.
const measureLimit = 3 * time.Second

// Measure asks what waits at the broker for each consumer of the list. A broker that cannot tell
// says errors.ErrUnsupported. One subscription that is gone keeps no other from being measured.
func Measure(ctx context.Context, list []stats.Consumer, backlog func(ctx context.Context, subscription string) (int64, error)) (first error) {
	ctx, cancel := context.WithTimeout(ctx, measureLimit)
	defer cancel()
	for i := range list {
		if list[i].Subscription == "" {
			continue
		}
		var waiting int64
		var failed error
		for name := range strings.SplitSeq(list[i].Subscription, ",") {
			n, err := backlog(ctx, name)
			if errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			waiting, failed = waiting+n, cmp.Or(failed, err)
		}
		if failed == nil {
			list[i].Backlog = &waiting
		}
		if first = cmp.Or(first, failed); ctx.Err() != nil {
			break
		}
	}
	return first
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
	if _, err := p.tenant(); err != nil {
		return err
	}
	if p.Consumer == "" {
		return nil
	}
	return idem.CheckConsumers([]string{p.Consumer})
}

// tenant is the tenant's id as messages have it, or empty.
func (p FailuresParams) tenant() (string, error) {
	if p.TenantID == "" {
		return "", nil
	}
	id, err := outbox.ParseTenant(p.TenantID)
	return id.String(), err
}

// selectFailures reads by primary key, or by the index on event_id. Ids of events grow with time.
const selectFailures = `
SELECT consumer, event_id::text, event_type, namespace, coalesce(tenant_id, '') AS tenant_id, coalesce(ordering_key, '') AS ordering_key,
       subscription, state, attempts,
       last_error, first_at, last_at
  FROM outbox_consumer_failures
 WHERE ($1::text = '' OR consumer = $1) AND ($2::text = '' OR state = $2) AND ($3::text = '' OR event_type = $3)
   AND ($4::text = '' OR namespace = $4) AND ($5::text = '' OR tenant_id = $5) AND ($6::uuid[] IS NULL OR event_id = ANY ($6::uuid[]))
 ORDER BY event_id DESC, consumer LIMIT nullif($7::int, 0)`

// Failures lists what consumers fail on, newest events first.
func Failures(ctx context.Context, db outbox.Database, p FailuresParams) ([]Failure, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if len(p.EventIDs) == 0 {
		p.EventIDs = nil // all of them, which an empty list would not be
	}
	tenant, err := p.tenant()
	if err != nil {
		return nil, err
	}
	return outbox.Rows[Failure](ctx, db, "read what consumers fail on", selectFailures,
		p.Consumer, p.State, p.EventType, p.Namespace, tenant, p.EventIDs, p.Limit)
}
