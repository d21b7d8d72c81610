package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Scan walks the dead letters of a filter in order of time.
type Scan struct {
	store  *Store
	filter compiled
	order  outbox.Order
	after  *position // nothing up to here is returned again
	look   int       // size of the next window
	// looked is how many rows were looked at one by one, and budget how many may be; 0: all of them.
	looked, budget int
	// until is when the scan stops looking; zero: never.
	until     time.Time
	done, cut bool
}

// LookAt ends the scan after so many rows that were looked at one by one, or after so long; 0 is no limit. Where it ended then
// is Unfinished.
func (s *Scan) LookAt(rows int, long time.Duration) {
	if s.budget = rows; long > 0 {
		s.until = time.Now().Add(long)
	}
}

// Unfinished is the row up to which a scan that was cut short has looked, and how many rows that were; empty: it was not.
func (s *Scan) Unfinished() (last string, looked int) {
	if !s.cut {
		return "", 0
	}
	return s.after.id, s.looked
}

// NewScan starts a scan.
func (s *Store) NewScan(f Filter, order outbox.Order) (*Scan, error) {
	c, err := f.compile()
	if err != nil {
		return nil, err
	}
	return &Scan{store: s, filter: c, order: order, look: outbox.FirstWindow}, nil
}

// After moves the scan behind one dead letter. outbox.ErrNotFound when there is none with the id.
func (s *Scan) After(ctx context.Context, id string) error {
	var at time.Time
	err := s.store.db.QueryRow(ctx, selectEntryTime, id).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return outbox.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("find the cursor: %w", err)
	}
	s.moveTo(Target{ID: id, At: at})
	return nil
}

// Next returns up to n more dead letters; none means the end.
func (s *Scan) Next(ctx context.Context, n int) ([]Target, error) {
	for !s.done && n > 0 {
		sql, args := s.statement(n)
		var targets []Target
		var err error
		if s.filter.rest == "" {
			targets, err = s.page(ctx, n, sql, args)
		} else {
			targets, err = s.window(ctx, n, sql, args)
		}
		if err != nil {
			return nil, fmt.Errorf("scan dead letters: %w", err)
		}
		if len(targets) > 0 {
			return targets, nil
		}
	}
	return nil, nil
}

// statement is the query for the next page, or for the next window.
func (s *Scan) statement(n int) (string, []any) {
	c := s.filter
	c.args = slices.Clone(c.args)
	walk, orderBy := c.walk(s.order, s.after)
	limit, hit := n, ""
	if c.rest != "" {
		limit, hit = s.look, ", "+c.rest+" AS hit"
	}
	inner := fmt.Sprintf("SELECT id, event_id, failed_at%s FROM outbox_dlq WHERE %s ORDER BY %s LIMIT %d", hit, walk, orderBy, limit)
	if c.rest == "" {
		return "SELECT id::text, event_id::text, failed_at FROM (" + inner + ") AS page", c.args
	}
	// One more row than asked for closes the answer: where the window ended.
	return fmt.Sprintf(`WITH seen AS MATERIALIZED (%[1]s),
hits AS (SELECT id, event_id, failed_at FROM seen WHERE hit ORDER BY failed_at %[2]s, id %[2]s LIMIT %[3]d),
ends AS (SELECT id, event_id, failed_at FROM seen ORDER BY failed_at %[4]s, id %[4]s LIMIT 1)
SELECT id::text, event_id::text, failed_at, false, 0 FROM hits
UNION ALL
SELECT id::text, event_id::text, failed_at, true, (SELECT count(*) FROM seen) FROM ends`,
		inner, s.order, n, !s.order), c.args
}

func (s *Scan) page(ctx context.Context, n int, sql string, args []any) ([]Target, error) {
	targets, err := collect(ctx, s.store.db, func(row pgx.CollectableRow) (t Target, err error) {
		return t, row.Scan(&t.ID, &t.EventID, &t.At)
	}, sql, args...)
	if err != nil {
		return nil, err
	}
	s.done = len(targets) < n
	if len(targets) > 0 {
		s.moveTo(targets[len(targets)-1])
	}
	return targets, nil
}

func (s *Scan) window(ctx context.Context, n int, sql string, args []any) ([]Target, error) {
	var end Target
	var seen int
	rows, err := s.store.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var targets []Target
	for rows.Next() {
		var t Target
		var isEnd bool
		var count int
		if err := rows.Scan(&t.ID, &t.EventID, &t.At, &isEnd, &count); err != nil {
			return nil, err
		}
		if isEnd {
			end, seen = t, count
		} else {
			targets = append(targets, t)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	switch {
	case len(targets) == n: // the window may hold more
		s.moveTo(targets[n-1])
	case seen < s.look:
		s.done = true
	default:
		s.moveTo(end)
		s.look = outbox.NextWindow(s.look)
		s.spend(seen)
	}
	return targets, nil
}

// spend counts rows that were looked at; a budget of rows or of time that is used up ends the scan.
func (s *Scan) spend(seen int) {
	s.looked += seen
	if s.budget > 0 && s.looked >= s.budget || !s.until.IsZero() && time.Now().After(s.until) {
		s.cut, s.done = true, true
	}
}

func (s *Scan) moveTo(t Target) { s.after = &position{instant(t.At), t.ID} }

// List returns the next n entries of a scan, newest first. It looks at as many
// windows as it takes to fill the page.
func (s *Scan) List(ctx context.Context, n int) ([]Entry, error) {
	if s.filter.rest == "" {
		return s.entries(ctx, n)
	}
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
	return s.store.Entries(ctx, ids)
}

// entries is List where the index decides all: a page is then read by one statement.
func (s *Scan) entries(ctx context.Context, n int) ([]Entry, error) {
	if s.done || n <= 0 {
		return nil, nil
	}
	c := s.filter
	c.args = slices.Clone(c.args)
	walk, orderBy := c.walk(s.order, s.after)
	entries, err := collect(ctx, s.store.db, pgx.RowToStructByName[Entry], fmt.Sprintf(selectPage, walk, orderBy, n, s.order, pageColumns()), c.args...)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	if s.done = len(entries) < n; len(entries) > 0 {
		last := entries[len(entries)-1]
		s.moveTo(Target{ID: last.ID, At: last.FailedAt})
	}
	return entries, nil
}
