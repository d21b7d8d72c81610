package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// A Source hands out targets, at most n at a time; none means the end.
type Source interface {
	Next(ctx context.Context, n int) ([]Target, error)
}

// Named is the source of what an action is done to: the dead letters, or the events, behind ids,
// each of which may be a dead letter's or an event's. Two ids of one row count once.
func (o *Outbox) Named(action Action, ids []string) Source {
	return &namedSource{outbox: o, action: action, ids: ids, seen: make(map[string]bool, len(ids))}
}

type namedSource struct {
	outbox *Outbox
	action Action
	ids    []string
	seen   map[string]bool
}

// Next returns up to n more targets.
func (s *namedSource) Next(ctx context.Context, n int) ([]Target, error) {
	for len(s.ids) > 0 {
		part := s.ids[:min(n, len(s.ids))]
		targets, err := s.resolve(ctx, part)
		if err != nil {
			return nil, err
		}
		s.ids = s.ids[len(part):]
		fresh := targets[:0]
		for _, t := range targets {
			if key := cmp.Or(t.ID, t.Given); !s.seen[key] {
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

func (s *namedSource) resolve(ctx context.Context, ids []string) ([]Target, error) {
	switch {
	case s.action == Erase:
		return outbox.Rows[Target](ctx, s.outbox.DB, "look up events", resolveErasable, ids)
	case s.action.OnEvents():
		return outbox.Rows[Target](ctx, s.outbox.DB, "look up events", resolveEvents, ids)
	}
	return s.outbox.Resolve(ctx, ids, s.action.State())
}

// runSource hands out the dead letters that a run changed, by its audit rows, of which some is one.
// Each target is to be as its audit row left it.
type runSource struct {
	db   outbox.DB
	run  string
	some int64
	last int64 // the audit row that rest is of
	rest []Target
}

// Next returns up to n more targets.
func (s *runSource) Next(ctx context.Context, n int) ([]Target, error) {
	for len(s.rest) == 0 {
		var ids, events []string
		err := s.db.QueryRow(ctx, selectRunEntries, s.last, s.run, s.some).Scan(&s.last, &ids, &events)
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
