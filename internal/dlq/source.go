package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// A Source hands out what an action is done to, at most ChunkSize at a time and never nothing. An
// error is its end.
type Source = iter.Seq2[[]Target, error]

// scanned is the source of the rows of a scan.
func scanned[T any](ctx context.Context, scan *outbox.Scan[T]) Source {
	return func(yield func([]Target, error) bool) {
		for {
			targets, err := scan.Next(ctx, ChunkSize)
			if err == nil && len(targets) == 0 || !yield(targets, err) || err != nil {
				return
			}
		}
	}
}

// Named is the source of what an action is done to: the dead letters, or the events, behind ids,
// each of which may be a dead letter's or an event's. Two ids of one row count once.
func (o *Outbox) Named(ctx context.Context, action Action, ids []string) Source {
	return func(yield func([]Target, error) bool) {
		seen := make(map[string]bool, len(ids))
		for part := range slices.Chunk(ids, ChunkSize) {
			targets, err := o.named(ctx, action, part)
			if targets = fresh(targets, seen); (len(targets) > 0 || err != nil) && !yield(targets, err) {
				return
			}
		}
	}
}

func (o *Outbox) named(ctx context.Context, action Action, ids []string) ([]Target, error) {
	switch {
	case action == Erase:
		return outbox.Rows[Target](ctx, o.DB, "look up events", resolveErasable, ids)
	case action.OnEvents():
		return outbox.Rows[Target](ctx, o.DB, "look up events", resolveEvents, ids)
	}
	return o.Resolve(ctx, ids, action.State())
}

// changedBy is the source of the dead letters that a run changed, by its audit rows, of which some
// is one. Each target is to be as its audit row left it.
func (o *Outbox) changedBy(ctx context.Context, run string, some int64) Source {
	return func(yield func([]Target, error) bool) {
		for row := int64(0); ; {
			var ids, events []string
			err := o.DB.QueryRow(ctx, selectRunEntries, row, run, some).Scan(&row, &ids, &events)
			if errors.Is(err, pgx.ErrNoRows) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("read what the run changed: %w", err))
				return
			}
			targets := make([]Target, len(ids))
			for i, id := range ids {
				targets[i] = Target{ID: id, EventID: events[i], AuditID: row}
			}
			for part := range slices.Chunk(targets, ChunkSize) {
				if !yield(part, nil) {
					return
				}
			}
		}
	}
}

// erasable is the source of the events of a filter, and of those of which only dead letters are
// left.
func (o *Outbox) erasable(ctx context.Context, f Filter) (Source, error) {
	events, err := o.ScanEvents(f, outbox.OldestFirst, false)
	if err != nil {
		return nil, err
	}
	of := Filter{AggregateType: f.AggregateType, AggregateIDs: f.AggregateIDs, Tenants: f.Tenants}
	letters, err := o.ScanDeadLetters(of, outbox.OldestFirst)
	return func(yield func([]Target, error) bool) {
		for targets, err := range scanned(ctx, events) {
			if !yield(targets, err) {
				return
			}
		}
		o.orphans(ctx, scanned(ctx, letters))(yield)
	}, err
}

// orphans is the source of the events of dead letters whose rows are gone.
func (o *Outbox) orphans(ctx context.Context, letters Source) Source {
	return func(yield func([]Target, error) bool) {
		seen := map[string]bool{}
		for letters, err := range letters {
			var events []Target
			if err == nil {
				events, err = outbox.Rows[Target](ctx, o.DB, "look for dead letters without an event", selectOrphans, eventsOf(letters))
			}
			if events = fresh(events, seen); (len(events) > 0 || err != nil) && !yield(events, err) {
				return
			}
		}
	}
}

// fresh leaves out what was seen before.
func fresh(targets []Target, seen map[string]bool) []Target {
	return slices.DeleteFunc(targets, func(t Target) bool {
		id := cmp.Or(t.ID, t.Given)
		again := seen[id]
		seen[id] = true
		return again
	})
}

func idsOf(targets []Target) []string {
	ids := make([]string, len(targets))
	for i, t := range targets {
		ids[i] = cmp.Or(t.ID, t.Given)
	}
	return ids
}

// eventsOf are the events of targets; empty where one was not found.
func eventsOf(targets []Target) []string {
	events := make([]string, len(targets))
	for i, t := range targets {
		events[i] = t.EventID
	}
	return events
}
