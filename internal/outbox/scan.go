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

// A statement looks at a window of rows when a condition has no index, so that none keeps the
// server busy: whatever the filter, a scan of a million rows is a series of short statements, and
// stops between any two of them. The first window is small, because what is common is found at
// once; the next ones grow.
const (
	firstWindow = 500
	MaxWindow   = 5_000
)

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

// Target is one event, or one dead letter, that something is to be done to.
type Target struct {
	// Given is the id that a person named; empty when a filter chose the row.
	Given string
	// ID is the row's own, and EventID its event's. Empty: there is none with the id that was given.
	ID, EventID string
	// At is when the event was published, or the dead letter was written; nil: never.
	At *time.Time
	// AuditID is the audit row that a dead letter must still have; 0: any.
	AuditID int64
}

// Position is a place in the order of an index: the key of a row, as text, and its id.
type Position struct{ Key, ID string }

// Walk is a filter as SQL, in two parts: what the index that is walked can decide, and what has to
// be looked at row by row.
type Walk struct {
	// Table has the rows, of which Columns are the event's id and the time of a Target.
	Table, Columns string
	// Key is the column of the order, before the id, and Cast its type.
	Key, Cast string
	// Parts of the table have an index each: the column that is the key there, and the condition. Nil:
	// it has one.
	Parts [][2]string
	// Lead is the first column of the index, before the key; empty: it has none. LeadValue is the SQL
	// of the value it must have.
	Lead, LeadValue string
	// Low and High are the ends of what is walked, the first included; nil: there is none.
	Low, High *Position
	// Decided and Rest are the conditions of the two parts.
	Decided, Rest []string
	Args          []any
}

// Bind adds an argument and returns its parameter.
func (w *Walk) Bind(v any) string {
	w.Args = append(w.Args, v)
	return fmt.Sprintf("$%d", len(w.Args))
}

// And joins conditions.
func And(conditions ...string) string {
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " AND ")
}

// from is what the index decides behind a position, and the order of that index. after is where a
// page starts; nil: at the end the order starts from.
//
// With a leading column it compares whole rows of the index, and does not say that the column
// equals a constant: PostgreSQL would then also consider walking all rows in order of time, which
// looks cheaper whenever the value is common, and takes for ever when it is not to be found among
// the newest.
func (w Walk) from(order Order, after *Position) (where, orderBy string, args []any) {
	w.Args = slices.Clone(w.Args)
	above := ">="
	switch {
	case after == nil:
	case order == OldestFirst:
		w.Low, above = after, ">"
	default:
		w.High = after
	}
	row, value := w.Key+", id", ""
	orderBy = fmt.Sprintf("%s %[2]s, id %[2]s", w.Key, order)
	where = And(w.Decided...)
	if w.Lead != "" {
		row, value = w.Lead+", "+row, w.LeadValue+", "
		orderBy = fmt.Sprintf("%s %s, %s", w.Lead, order, orderBy)
		// Follows from the below, but PostgreSQL wants to read it before it takes an index without NULLs.
		where += " AND " + w.Lead + " IS NOT NULL"
	}
	bound := func(op string, p *Position) {
		if p != nil {
			where += fmt.Sprintf(" AND (%s) %s (%s%s::text::%s, %s::uuid)", row, op, value, w.Bind(p.Key), w.Cast, w.Bind(p.ID))
		}
	}
	bound(above, w.Low)
	bound("<", w.High)
	return where, orderBy, w.Args
}

// source is what a window of so many rows is taken from: of each part as many, of which the first
// are the window.
func (w Walk) source(order Order, after *Position, limit int) (from, orderBy string, args []any) {
	where, orderBy, args := w.from(order, after)
	if w.Parts == nil {
		return w.Table + " WHERE " + where, orderBy, args
	}
	parts := make([]string, len(w.Parts))
	for i, p := range w.Parts {
		part := w
		part.Key, part.Decided = p[0], append(slices.Clone(w.Decided), p[1])
		where, order, _ := part.from(order, after)
		parts[i] = fmt.Sprintf(`(SELECT id, event_type, aggregate_type, namespace, tenant_id, created_at, published_at, dead_at
  FROM %s WHERE %s ORDER BY %s LIMIT %d)`, w.Table, where, order, limit)
	}
	return "(" + strings.Join(parts, " UNION ALL ") + ") AS e", orderBy, args
}

// Scan walks the rows of a filter in order.
type Scan[T any] struct {
	DB    DB
	Walk  Walk
	Order Order
	// Read reads rows by their ids, in that order.
	Read func(ctx context.Context, ids []string) ([]T, error)
	// Page reads the first n rows of what the index decides, in its order; nil: by their ids. At is
	// where a row stands.
	Page func(where, orderBy string, n int) (sql string)
	At   func(T) Position

	after *Position // nothing up to here is returned again
	look  int       // size of the next window; 0: of the first
	// looked is how many rows were looked at one by one, and budget how many may be; 0: all of them.
	looked, budget int
	// until is when the scan stops looking; zero: never.
	until     time.Time
	done, cut bool
}

// LookAt ends the scan after so many rows that were looked at one by one, or after so long; 0 is no
// limit. Where it ended then is Unfinished.
func (s *Scan[T]) LookAt(rows int, long time.Duration) {
	if s.budget = rows; long > 0 {
		s.until = time.Now().Add(long)
	}
}

// Unfinished is the row up to which a scan that was cut short has looked, and how many rows that
// were; empty: it was not.
func (s *Scan[T]) Unfinished() (last string, looked int) {
	if !s.cut {
		return "", 0
	}
	return s.after.ID, s.looked
}

// After moves the scan behind one row. ErrNotFound when there is none with the id.
func (s *Scan[T]) After(ctx context.Context, id string) error {
	var key *string
	sql := fmt.Sprintf("SELECT to_json(%s) #>> '{}' FROM %s WHERE id = $1::uuid", s.Walk.Key, s.Walk.Table)
	err := s.DB.QueryRow(ctx, sql, id).Scan(&key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("find the cursor: %w", err)
	case key == nil:
		return fmt.Errorf("event %s is in another state now: %w", id, ErrNotFound)
	}
	s.after = &Position{*key, id}
	return nil
}

// Next returns up to n more rows; none means the end.
func (s *Scan[T]) Next(ctx context.Context, n int) ([]Target, error) {
	for !s.done && n > 0 {
		targets, err := s.window(ctx, n)
		if err != nil || len(targets) > 0 {
			return targets, err
		}
	}
	return nil, nil
}

// windowQuery has one more row than asked for, which closes the answer: where the window ended.
const windowQuery = `WITH seen AS MATERIALIZED (
  SELECT id, %[8]s, %[1]s AS key, %[2]s AS hit FROM %[3]s ORDER BY %[9]s LIMIT %[5]d),
hits AS (SELECT * FROM seen WHERE hit ORDER BY key %[4]s, id %[4]s LIMIT %[6]d),
ends AS (SELECT * FROM seen ORDER BY key %[7]s, id %[7]s LIMIT 1)
SELECT id::text, event_id::text, at, to_json(key) #>> '{}' AS key, 0 AS seen FROM hits
UNION ALL
SELECT id::text, event_id::text, at, to_json(key) #>> '{}', (SELECT count(*) FROM seen) FROM ends`

func (s *Scan[T]) window(ctx context.Context, n int) ([]Target, error) {
	s.look = max(s.look, firstWindow)
	limit := s.look
	if len(s.Walk.Rest) == 0 {
		limit = n
	}
	from, orderBy, args := s.Walk.source(s.Order, s.after, limit)
	found, err := Rows[struct {
		Target
		Key  string
		Seen int
	}](ctx, s.DB, "scan "+s.Walk.Table, fmt.Sprintf(windowQuery, s.Walk.Key, And(s.Walk.Rest...), from, s.Order, limit, n, !s.Order,
		s.Walk.Columns, orderBy), args...)
	if err != nil || len(found) == 0 {
		s.done = true
		return nil, err
	}
	var targets []Target
	var last, end Position
	seen := 0
	for _, f := range found {
		if f.Seen > 0 {
			end, seen = Position{f.Key, f.ID}, f.Seen
			continue
		}
		targets, last = append(targets, f.Target), Position{f.Key, f.ID}
	}
	switch {
	case len(targets) == n: // the window may hold more
		s.after = &last
	case seen < limit:
		s.done = true
	default:
		s.after, s.look = &end, min(4*s.look, MaxWindow)
		s.spend(seen)
	}
	return targets, nil
}

// spend counts rows that were looked at; a budget of rows or of time that is used up ends the scan.
func (s *Scan[T]) spend(seen int) {
	s.looked += seen
	if s.budget > 0 && s.looked >= s.budget || !s.until.IsZero() && time.Now().After(s.until) {
		s.cut, s.done = true, true
	}
}

// List returns the next n rows of a scan. It looks at as many windows as it takes to fill the page.
func (s *Scan[T]) List(ctx context.Context, n int) ([]T, error) {
	if s.Page != nil && len(s.Walk.Rest) == 0 {
		return s.list(ctx, n)
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
	return s.Read(ctx, ids)
}

// list is List where the index decides all: a page is then read by one statement.
func (s *Scan[T]) list(ctx context.Context, n int) ([]T, error) {
	if s.done || n <= 0 {
		return nil, nil
	}
	where, orderBy, args := s.Walk.from(s.Order, s.after)
	rows, err := Rows[T](ctx, s.DB, "list "+s.Walk.Table, s.Page(where, orderBy, n), args...)
	if s.done = len(rows) < n; len(rows) > 0 {
		at := s.At(rows[len(rows)-1])
		s.after = &at
	}
	return rows, err
}
