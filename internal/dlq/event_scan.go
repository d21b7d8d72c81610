package dlq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// EventFilter selects events.
type EventFilter struct {
	Status        string    `json:"status,omitempty"` // empty: all
	Types         []string  `json:"types,omitempty"`
	Namespaces    []string  `json:"namespaces,omitempty"`
	Tenants       []string  `json:"tenants,omitempty"`
	AggregateIDs  []string  `json:"aggregateIds,omitempty"`
	AggregateType string    `json:"aggregateType,omitempty"`
	Since         time.Time `json:"since,omitzero"` // inclusive
	Until         time.Time `json:"until,omitzero"` // exclusive
}

// Narrows reports whether the filter leaves anything out besides a status.
func (f EventFilter) Narrows() bool {
	return len(f.Types)+len(f.Namespaces)+len(f.Tenants)+len(f.AggregateIDs) > 0 || f.AggregateType != "" ||
		!f.Since.IsZero() || !f.Until.IsZero()
}

// eventWalk is the index a scan follows: its key, and what is true of every row in it.
type eventWalk struct{ key, cast, where string }

func (f EventFilter) walk() (eventWalk, error) {
	switch {
	case len(f.AggregateIDs) > 0:
		return eventWalk{"seq", "bigint", ""}, nil
	case f.Status == "":
		return eventWalk{"id", "uuid", ""}, nil
	case f.Status == StatusPublished:
		return eventWalk{"published_at", "timestamptz", "published_at IS NOT NULL"}, nil
	case f.Status == StatusDead:
		return eventWalk{"dead_at", "timestamptz", "dead_at IS NOT NULL"}, nil
	case f.Status == StatusPending, f.Status == StatusProcessing:
		return eventWalk{"seq", "bigint", "published_at IS NULL AND dead_at IS NULL"}, nil
	default:
		return eventWalk{}, fmt.Errorf("unknown status %q", f.Status)
	}
}

// EventScan walks the events of a filter: published ones by the time of
// publication, dead ones by the time of death, waiting ones by their turn, and
// all together by id, which is the time of their making.
type EventScan struct {
	store *Store
	walk  eventWalk
	where string // decided by the index
	rest  string // looked at row by row
	args  []any
	order Order
	key   string
	id    string
	look  int // size of the next window
	done  bool
}

// NewEventScan starts a scan. Since and Until limit created_at or, with
// byPublication, published_at.
func (s *Store) NewEventScan(f EventFilter, order Order, byPublication bool) (*EventScan, error) {
	w, err := f.walk()
	if err != nil {
		return nil, err
	}
	scan := &EventScan{store: s, walk: w, order: order, look: firstWindow}
	bind := func(v any) string {
		scan.args = append(scan.args, v)
		return fmt.Sprintf("$%d", len(scan.args))
	}
	var where, rest []string
	if w.where != "" {
		where = append(where, w.where)
	}
	switch f.Status {
	case StatusPending:
		rest = append(rest, "coalesce(locked_until <= now(), true)")
	case StatusProcessing:
		rest = append(rest, "coalesce(locked_until > now(), false)")
	case StatusDead:
		rest = append(rest, "published_at IS NULL")
	}
	if len(f.AggregateIDs) > 0 {
		// All types are named so that the index on (type, id) serves without one.
		where = append(where, "aggregate_type = ANY (enum_range(NULL::aggregate_type_enum))",
			fmt.Sprintf("aggregate_id = ANY (%s::uuid[])", bind(f.AggregateIDs)))
		if f.Status == StatusPublished {
			rest = append(rest, "published_at IS NOT NULL")
		}
		if f.Status == StatusPending || f.Status == StatusProcessing {
			rest = append(rest, "published_at IS NULL AND dead_at IS NULL")
		}
		if f.Status == StatusDead {
			rest = append(rest, "dead_at IS NOT NULL")
		}
	}
	for _, c := range []condition{
		{"event_type", "event_type_enum", f.Types, false},
		{"namespace", "text", f.Namespaces, false},
		{"tenant_id", "uuid", f.Tenants, false},
	} {
		if len(c.values) > 0 {
			rest = append(rest, fmt.Sprintf("coalesce(%s = ANY (%s::%s[]), false)", c.column, bind(c.values), c.cast))
		}
	}
	if f.AggregateType != "" {
		rest = append(rest, fmt.Sprintf("aggregate_type = %s::aggregate_type_enum", bind(f.AggregateType)))
	}
	column, into := "created_at", &rest
	if byPublication {
		column, into = "published_at", &where
	}
	if !f.Since.IsZero() {
		*into = append(*into, fmt.Sprintf("%s >= %s::timestamptz", column, bind(f.Since)))
	}
	if !f.Until.IsZero() {
		*into = append(*into, fmt.Sprintf("%s < %s::timestamptz", column, bind(f.Until)))
	}
	scan.where, scan.rest = strings.Join(where, " AND "), strings.Join(rest, " AND ")
	return scan, nil
}

// After moves the scan behind one event.
func (s *EventScan) After(ctx context.Context, id string) error {
	var key *string
	sql := fmt.Sprintf("SELECT to_json(%s) #>> '{}' FROM outbox_events WHERE id = $1::uuid", s.walk.key)
	err := s.store.db.QueryRow(ctx, sql, id).Scan(&key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("find the cursor: %w", err)
	case key == nil:
		return fmt.Errorf("event %s is in another state now: %w", id, ErrNotFound)
	}
	s.key, s.id = *key, id
	return nil
}

// Next returns up to n more events; none means the end. At is the time of publication.
func (s *EventScan) Next(ctx context.Context, n int) ([]Target, error) {
	for !s.done && n > 0 {
		targets, err := s.window(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("scan events: %w", err)
		}
		if len(targets) > 0 {
			return targets, nil
		}
	}
	return nil, nil
}

func (s *EventScan) window(ctx context.Context, n int) ([]Target, error) {
	direction, beyond := "DESC", "<"
	if s.order == OldestFirst {
		direction, beyond = "ASC", ">"
	}
	args := append([]any(nil), s.args...)
	where := s.where
	if s.id != "" {
		args = append(args, s.key, s.id)
		where = strings.TrimPrefix(fmt.Sprintf("%s AND (%s, id) %s ($%d::text::%s, $%d::uuid)",
			where, s.walk.key, beyond, len(args)-1, s.walk.cast, len(args)), " AND ")
	}
	if where == "" {
		where = "true"
	}
	limit, hit := s.look, s.rest
	if hit == "" {
		limit, hit = n, "true"
	}
	rows, err := s.store.db.Query(ctx, fmt.Sprintf(`WITH seen AS MATERIALIZED (
  SELECT id, published_at, %[1]s AS key, %[2]s AS hit FROM outbox_events WHERE %[3]s ORDER BY %[1]s %[4]s, id %[4]s LIMIT %[5]d),
hits AS (SELECT * FROM seen WHERE hit ORDER BY key %[4]s, id %[4]s LIMIT %[6]d),
ends AS (SELECT * FROM seen ORDER BY key %[7]s, id %[7]s LIMIT 1)
SELECT id::text, published_at, to_json(key) #>> '{}', false, 0 FROM hits
UNION ALL
SELECT id::text, published_at, to_json(key) #>> '{}', true, (SELECT count(*) FROM seen) FROM ends`,
		s.walk.key, hit, where, direction, limit, n, opposite(direction)), args...)
	if err != nil {
		return nil, err
	}
	var targets []Target
	var id, key, endID, endKey string
	var at *time.Time
	var isEnd bool
	var count, seen int
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &key, &isEnd, &count}, func() error {
		if isEnd {
			endID, endKey, seen = id, key, count
			return nil
		}
		t := Target{ID: id, EventID: id}
		if at != nil {
			t.At = *at
		}
		targets = append(targets, t)
		s.id, s.key = id, key
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(targets) < n {
		s.done = seen < limit
		s.id, s.key = endID, endKey
		s.look = nextWindow(s.look)
	}
	return targets, nil
}

// List returns the next n events of a scan.
func (s *EventScan) List(ctx context.Context, n int) ([]Event, error) {
	var ids []string
	for len(ids) < n {
		targets, err := s.Next(ctx, n-len(ids))
		if err != nil {
			return nil, err
		}
		if len(targets) == 0 {
			break
		}
		for _, t := range targets {
			ids = append(ids, t.ID)
		}
	}
	return s.store.Events(ctx, ids)
}
