package dlq

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// IDSource hands out the targets behind ids that an operator named.
type IDSource struct {
	resolve func(ctx context.Context, ids []string) ([]Target, error)
	ids     []string
	seen    map[string]bool
}

// NamedEntries is the source of the dead letters behind ids, which may be dead
// letters' or events'. Two ids of one dead letter count once.
func (s *Store) NamedEntries(ids []string, prefer string) *IDSource {
	return &IDSource{
		resolve: func(ctx context.Context, ids []string) ([]Target, error) { return s.Resolve(ctx, ids, prefer) },
		ids:     ids,
		seen:    make(map[string]bool, len(ids)),
	}
}

// NamedEvents is the source of the events behind ids, which may be events' or
// dead letters'.
func (s *Store) NamedEvents(ids []string) *IDSource {
	return &IDSource{resolve: s.ResolveEvents, ids: ids, seen: make(map[string]bool, len(ids))}
}

// Next returns up to n more targets.
func (s *IDSource) Next(ctx context.Context, n int) ([]Target, error) {
	for len(s.ids) > 0 {
		part := s.ids[:min(n, len(s.ids))]
		targets, err := s.resolve(ctx, part)
		if err != nil {
			return nil, err
		}
		s.ids = s.ids[len(part):]
		fresh := targets[:0]
		for _, t := range targets {
			key := t.ID
			if key == "" {
				key = t.Given
			}
			if !s.seen[key] {
				s.seen[key] = true
				fresh = append(fresh, t)
			}
		}
		if len(fresh) > 0 {
			return fresh, nil
		}
	}
	return nil, nil
}

// runSource hands out what one run changed.
type runSource struct {
	store *Store
	run   string
	some  int64
	last  int64 // the audit row that rest is of
	rest  []Target
}

// RunEntries is the source of the dead letters that a run changed, by its audit rows, of which some is one. Each target is to
// be as its audit row left it.
func (s *Store) RunEntries(run string, some int64) Source {
	return &runSource{store: s, run: run, some: some}
}

// Next returns up to n more targets.
func (s *runSource) Next(ctx context.Context, n int) ([]Target, error) {
	for len(s.rest) == 0 {
		var ids, events []string
		err := s.store.db.QueryRow(ctx, selectRunEntries, s.last, s.run, s.some).Scan(&s.last, &ids, &events)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what the run changed: %w", err)
		}
		for i, id := range ids {
			s.rest = append(s.rest, Target{ID: id, EventID: events[i], AuditID: s.last})
		}
	}
	part := s.rest[:min(n, len(s.rest))]
	s.rest = s.rest[len(part):]
	return part, nil
}
