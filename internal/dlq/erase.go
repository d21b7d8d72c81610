package dlq

import (
	"context"
	"fmt"
	"slices"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// NotErased is what an erasure does not reach, in words.
const NotErased = "messages that the broker or a consumer has, backups, replicas' and PostgreSQL's own logs (WAL), " +
	"and on disk the old versions of the rows until VACUUM FULL outbox_events, outbox_dlq, outbox_consumer_failures"

// An event's id stands for itself also when cleanup has removed its row and only dead letters of it
// are left.
const resolveErasable = `
SELECT f.given, coalesce(f.id, '') AS id, coalesce(f.id, '') AS event_id
  FROM (SELECT w.id::text AS given, w.ord,
               coalesce(d.event_id, e.id, (SELECT n.event_id FROM outbox_dlq AS n WHERE n.event_id = w.id LIMIT 1))::text AS id
          FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
          LEFT JOIN outbox_dlq AS d ON d.id = w.id
          LEFT JOIN outbox_events AS e ON e.id = w.id) AS f
 ORDER BY f.ord`

// The events of dead letters whose rows cleanup has removed. By primary key.
const selectOrphans = `
SELECT DISTINCT w.id::text AS id, w.id::text AS event_id FROM unnest($1::uuid[]) AS w(id)
 WHERE NOT EXISTS (SELECT FROM outbox_events AS e WHERE e.id = w.id)`

// erasable hands out the events of its sources, each with whether it may wait.
type erasable struct {
	sources []Source
	discard bool
}

// Erasable is the source of the events of a filter, and of those of which only dead letters are
// left.
func (o *Outbox) Erasable(f Filter, discard bool) (Source, error) {
	events, err := o.ScanEvents(f, outbox.OldestFirst, false)
	if err != nil {
		return nil, err
	}
	of := Filter{AggregateType: f.AggregateType, AggregateIDs: f.AggregateIDs, Tenants: f.Tenants}
	letters, err := o.ScanDeadLetters(of, outbox.OldestFirst)
	if err != nil {
		return nil, err
	}
	return &erasable{discard: discard, sources: []Source{events, &orphans{letters: letters, db: o.DB, seen: map[string]bool{}}}}, nil
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
	db      outbox.DB
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
		targets, err := outbox.Rows[Target](ctx, o.db, "look for dead letters without an event", selectOrphans, events)
		if err != nil {
			return nil, err
		}
		targets = slices.DeleteFunc(targets, func(t Target) bool { return o.seen[t.ID] })
		for _, t := range targets {
			o.seen[t.ID] = true
		}
		if len(targets) > 0 {
			return targets, nil
		}
	}
}

// forgetSamples makes PostgreSQL's statistics forget what was erased.
func (o *Outbox) forgetSamples(ctx context.Context) error {
	var done bool
	if err := o.change(ctx, `SELECT outbox_forget_samples()`, nil, &done); err != nil {
		return fmt.Errorf("take new statistics: %w", err)
	}
	if !done {
		return fault.Hint(fault.Partialf("PostgreSQL's statistics may hold samples of what was erased: another session keeps ANALYZE from taking new ones"),
			"ANALYZE outbox_events, outbox_dlq, outbox_consumer_failures")
	}
	return nil
}
