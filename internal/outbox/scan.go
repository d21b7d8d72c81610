package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A statement looks at a window of rows when a condition has no index, so that none keeps the server busy: whatever the
// filter, a scan of a million rows is a series of short statements, and stops between any two of them. The first window is
// small, because what is common is found at once; the next ones grow.
const (
	FirstWindow = 500
	MaxWindow   = 5_000
)

// NextWindow is the size of the window after one of n rows in which too little was found.
func NextWindow(n int) int { return min(4*n, MaxWindow) }

// Order is the direction of a scan.
type Order bool

// A list shows the newest first; work is done oldest first, in the order in which events happened.
const (
	NewestFirst Order = false
	OldestFirst Order = true
)

// String is the direction as SQL writes it.
func (o Order) String() string {
	if o == OldestFirst {
		return "ASC"
	}
	return "DESC"
}

// Ref is an event that a scan found.
type Ref struct {
	ID string
	// PublishedAt is zero unless it has been published.
	PublishedAt time.Time
}

// Scan walks the events of a filter: published ones by the time of publication, dead ones by the time of death, waiting
// ones by their turn, and all together by id, which is the time of their making.
type Scan struct {
	store  *Store
	filter compiled
	order  Order
	key    string
	id     string
	look   int // size of the next window
	done   bool
}

// NewScan starts a scan. Since and Until limit created_at or, with byPublication, published_at.
func (s *Store) NewScan(f Filter, order Order, byPublication bool) (*Scan, error) {
	c, err := f.compile(byPublication)
	if err != nil {
		return nil, err
	}
	return &Scan{store: s, filter: c, order: order, look: FirstWindow}, nil
}

// After moves the scan behind one event.
func (s *Scan) After(ctx context.Context, id string) error {
	var key *string
	sql := fmt.Sprintf("SELECT to_json(%s) #>> '{}' FROM outbox_events WHERE id = $1::uuid", s.filter.key)
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

// Next returns up to n more events; none means the end.
func (s *Scan) Next(ctx context.Context, n int) ([]Ref, error) {
	for !s.done && n > 0 {
		refs, err := s.window(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("scan events: %w", err)
		}
		if len(refs) > 0 {
			return refs, nil
		}
	}
	return nil, nil
}

func (s *Scan) window(ctx context.Context, n int) ([]Ref, error) {
	beyond := "<"
	if s.order == OldestFirst {
		beyond = ">"
	}
	args := slices.Clone(s.filter.args)
	where := s.filter.decided
	if s.id != "" {
		args = append(args, s.key, s.id)
		where = strings.TrimPrefix(fmt.Sprintf("%s AND (%s, id) %s ($%d::text::%s, $%d::uuid)",
			where, s.filter.key, beyond, len(args)-1, s.filter.cast, len(args)), " AND ")
	}
	if where == "" {
		where = "true"
	}
	limit, hit := s.look, s.filter.rest
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
		s.filter.key, hit, where, s.order, limit, n, !s.order), args...)
	if err != nil {
		return nil, err
	}
	var refs []Ref
	var id, key, endID, endKey string
	var at *time.Time
	var isEnd bool
	var count, seen int
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &key, &isEnd, &count}, func() error {
		if isEnd {
			endID, endKey, seen = id, key, count
			return nil
		}
		ref := Ref{ID: id}
		if at != nil {
			ref.PublishedAt = *at
		}
		refs = append(refs, ref)
		s.id, s.key = id, key
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(refs) < n {
		s.done = seen < limit
		s.id, s.key = endID, endKey
		s.look = NextWindow(s.look)
	}
	return refs, nil
}

// List returns the next n events of a scan.
func (s *Scan) List(ctx context.Context, n int) ([]Event, error) {
	var ids []string
	for len(ids) < n {
		refs, err := s.Next(ctx, n-len(ids))
		if err != nil {
			return nil, err
		}
		if len(refs) == 0 {
			break
		}
		for _, ref := range refs {
			ids = append(ids, ref.ID)
		}
	}
	return s.store.Events(ctx, ids)
}
