package dlq

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// NotErased is what an erasure does not reach, in words.
const NotErased = "messages that the broker or a consumer has, backups, replicas' and PostgreSQL's own logs (WAL), " +
	"and on disk the old versions of the rows until VACUUM FULL outbox_events, outbox_dlq"

// An event's id stands for itself also when cleanup has removed its row and only dead letters of it are left.
const resolveErasable = `
SELECT w.id::text, coalesce(d.event_id, e.id, (SELECT n.event_id FROM outbox_dlq AS n WHERE n.event_id = w.id LIMIT 1))::text
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  LEFT JOIN outbox_dlq AS d ON d.id = w.id
  LEFT JOIN outbox_events AS e ON e.id = w.id
 ORDER BY w.ord`

// The events of dead letters whose rows cleanup has removed. By primary key.
const selectOrphans = `
SELECT DISTINCT w.id::text FROM unnest($1::uuid[]) AS w(id)
 WHERE NOT EXISTS (SELECT FROM outbox_events AS e WHERE e.id = w.id)`

// erasable hands out the events of its sources, each with whether it may wait.
type erasable struct {
	sources []Source
	discard bool
}

// NamedErasable is the source of the events behind ids, which may be events' or dead letters'.
func (s *Store) NamedErasable(ids []string, discard bool) Source {
	resolve := func(ctx context.Context, ids []string) ([]Target, error) {
		targets, err := collect(ctx, s.db, func(row pgx.CollectableRow) (t Target, err error) {
			var id *string
			if err = row.Scan(&t.Given, &id); id != nil {
				t.ID, t.EventID = *id, *id
			}
			return t, err
		}, resolveErasable, ids)
		if err != nil {
			return nil, fmt.Errorf("look up events: %w", err)
		}
		return targets, nil
	}
	return &erasable{discard: discard, sources: []Source{&IDSource{resolve: resolve, ids: ids, seen: map[string]bool{}}}}
}

// Erasable is the source of the events of a filter, and of those of which only dead letters are left.
func (s *Store) Erasable(f outbox.Filter, discard bool) (Source, error) {
	events, err := outbox.NewStore(s.db).NewScan(f, outbox.OldestFirst, false)
	if err != nil {
		return nil, err
	}
	letters, err := s.NewScan(Filter{AggregateType: f.AggregateType, AggregateIDs: f.AggregateIDs, Tenants: f.Tenants}, outbox.OldestFirst)
	if err != nil {
		return nil, err
	}
	return &erasable{discard: discard, sources: []Source{eventSource{events}, &orphans{letters: letters, store: s, seen: map[string]bool{}}}}, nil
}

// Next returns up to n more targets.
func (e *erasable) Next(ctx context.Context, n int) ([]Target, error) {
	for len(e.sources) > 0 {
		targets, err := e.sources[0].Next(ctx, n)
		if err != nil {
			return nil, err
		}
		for i := range targets {
			targets[i].Discard = e.discard
		}
		if len(targets) > 0 {
			return targets, nil
		}
		e.sources = e.sources[1:]
	}
	return nil, nil
}

// orphans hands out the events of dead letters whose rows are gone.
type orphans struct {
	letters Source
	store   *Store
	seen    map[string]bool
}

func (o *orphans) Next(ctx context.Context, n int) ([]Target, error) {
	for {
		letters, err := o.letters.Next(ctx, n)
		if err != nil || len(letters) == 0 {
			return nil, err
		}
		events := make([]string, len(letters))
		for i, l := range letters {
			events[i] = l.EventID
		}
		gone, err := collect(ctx, o.store.db, pgx.RowTo[string], selectOrphans, events)
		if err != nil {
			return nil, fmt.Errorf("look for dead letters without an event: %w", err)
		}
		gone = slices.DeleteFunc(gone, func(id string) bool { return o.seen[id] })
		var targets []Target
		for _, id := range gone {
			o.seen[id] = true
			targets = append(targets, Target{ID: id, EventID: id})
		}
		if len(targets) > 0 {
			return targets, nil
		}
	}
}

// forgetSamples makes PostgreSQL's statistics forget what was erased.
func (s *Store) forgetSamples(ctx context.Context) error {
	var done bool
	if err := s.change(ctx, `SELECT outbox_forget_samples()`, nil, &done); err != nil {
		return fmt.Errorf("take new statistics: %w", err)
	}
	if !done {
		return fault.Hint(fault.Partialf("PostgreSQL's statistics may hold samples of what was erased: another session keeps ANALYZE from taking new ones"),
			"ANALYZE outbox_events, outbox_dlq")
	}
	return nil
}
