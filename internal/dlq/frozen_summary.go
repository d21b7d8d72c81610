package dlq

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// namesCounted is how many values of one kind a summary tells apart; others counts the rest.
const (
	namesCounted = 100
	others       = "others"
)

// Summary describes the set of a plan: how many rows there are of each kind.
type Summary struct {
	Reasons map[string]int64 `json:"reasons,omitempty"`
	Types   map[string]int64 `json:"types,omitempty"`
	Topics  map[string]int64 `json:"topics,omitempty"`
	Tenants map[string]int64 `json:"tenants,omitempty"`
	OrderEffects
}

// Hopeless counts, by reason, the dead letters of the set that must die again when they are replayed.
func (s Summary) Hopeless() map[string]int64 {
	found := map[string]int64{}
	for reason, n := range s.Reasons {
		if Hopeless(reason) {
			found[reason] = n
		}
	}
	return found
}

// By primary key.
const (
	summarizeEntries = `
SELECT d.error_reason::text, d.event_type::text, coalesce(d.topic, ''), coalesce(d.tenant_id::text, ''), count(*)
  FROM outbox_dlq AS d WHERE d.id = ANY ($1::uuid[]) GROUP BY 1, 2, 3, 4`
	summarizeEvents = `
SELECT '', e.event_type::text, '', coalesce(e.tenant_id::text, ''), count(*)
  FROM outbox_events AS e WHERE e.id = ANY ($1::uuid[]) GROUP BY 1, 2, 3, 4`
)

// summarize adds a chunk of ids to a summary.
func (s *Store) summarize(ctx context.Context, action Action, ids []string, sum *Summary) error {
	sql := summarizeEntries
	if action.OnEvents() {
		sql = summarizeEvents
	}
	rows, err := s.db.Query(ctx, sql, ids)
	if err != nil {
		return fmt.Errorf("describe the set: %w", err)
	}
	var reason, eventType, topic, tenant string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&reason, &eventType, &topic, &tenant, &n}, func() error {
		add(&sum.Reasons, reason, n)
		add(&sum.Types, eventType, n)
		add(&sum.Topics, topic, n)
		add(&sum.Tenants, tenant, n)
		return nil
	})
	if err != nil {
		return fmt.Errorf("describe the set: %w", err)
	}
	return nil
}

func add(counts *map[string]int64, name string, n int64) {
	if name == "" {
		return
	}
	if *counts == nil {
		*counts = map[string]int64{}
	}
	if _, known := (*counts)[name]; !known && len(*counts) >= namesCounted {
		name = others
	}
	(*counts)[name] += n
}
