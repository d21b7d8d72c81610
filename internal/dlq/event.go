package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// A dead letter's id leads to its event; any other id stands for itself.
const resolveEvents = `
SELECT w.id::text, e.id::text, e.published_at
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  LEFT JOIN outbox_dlq AS d ON d.id = w.id
  LEFT JOIN outbox_events AS e ON e.id = coalesce(d.event_id, w.id)
 ORDER BY w.ord`

// ResolveEvents finds the events behind ids. At is when each was published.
func (s *Store) ResolveEvents(ctx context.Context, ids []string) ([]Target, error) {
	targets, err := collect(ctx, s.db, func(row pgx.CollectableRow) (Target, error) {
		var t Target
		var id *string
		var at *time.Time
		err := row.Scan(&t.Given, &id, &at)
		if id != nil {
			t.ID, t.EventID = *id, *id
		}
		if at != nil {
			t.At = *at
		}
		return t, err
	}, resolveEvents, ids)
	if err != nil {
		return nil, fmt.Errorf("look up events: %w", err)
	}
	return targets, nil
}

// eventSource hands out events as targets of a republication.
type eventSource struct{ scan *outbox.Scan }

// PublishedEvents is the source of the events of a filter, in the order of their publication, by which Since and Until
// limit them.
func (s *Store) PublishedEvents(f outbox.Filter) (Source, error) {
	scan, err := outbox.NewStore(s.db).NewScan(f, outbox.OldestFirst, true)
	return eventSource{scan}, err
}

// Next returns up to n more targets.
func (s eventSource) Next(ctx context.Context, n int) ([]Target, error) {
	refs, err := s.scan.Next(ctx, n)
	targets := make([]Target, len(refs))
	for i, ref := range refs {
		targets[i] = Target{ID: ref.ID, EventID: ref.ID, At: ref.PublishedAt}
	}
	return targets, err
}
