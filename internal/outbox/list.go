package outbox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// ListParams selects events, or dead letters.
type ListParams struct {
	Filter Filter
	Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor
// canonical.
func (p *ListParams) Check() error { return p.CheckCursor() }

// ListEvents passes the events of a filter to each, newest first. With a limit, events whose ids do
// not tell their time are listed by their last change; without one by id, so that an event that
// changes meanwhile is passed once and not left out.
func (o *Outbox) ListEvents(ctx context.Context, p ListParams, each func(Event) error) (Paged, error) {
	if err := o.AddTopics(&p.Filter); err != nil {
		return Paged{}, err
	}
	byChange := false
	if w, err := p.Filter.walk(); err == nil && w.Key == "id" && p.Limit > 0 {
		if err := o.DB.QueryRow(ctx, idsAreRandom).Scan(&byChange); err != nil {
			return Paged{}, fmt.Errorf("look at the newest id: %w", err)
		}
	}
	start := func(f Filter) (*Scan[Event], error) {
		scan, err := o.ScanEvents(f, NewestFirst, false)
		if err == nil && byChange {
			scan.Walk.byChange()
		}
		return scan, err
	}
	return List(ctx, o, p, start, each, func(e Event) string { return e.ID })
}

// List passes one part of a scan to each.
func List[T any](ctx context.Context, o *Outbox, p ListParams, start func(Filter) (*Scan[T], error), each func(T) error,
	id func(T) string,
) (paged Paged, err error) {
	if err := p.Check(); err != nil {
		return paged, err
	}
	if p.Cursor, err = o.Complete(ctx, p.Cursor); err != nil {
		return paged, err
	}
	if err := o.SettleAggregate(ctx, &p.Filter); err != nil {
		return paged, err
	}
	scan, err := start(p.Filter)
	if err != nil {
		return paged, fault.As(fault.Usage, err)
	}
	if p.Cursor != "" {
		err := scan.After(ctx, p.Cursor)
		if errors.Is(err, ErrNotFound) {
			return paged, fault.NotFoundf("no row %s to start after", p.Cursor)
		}
		if err != nil {
			return paged, err
		}
	}
	scan.LookAt(p.LookAt, p.LookFor)
	last, more, err := ReadPages(p.Limit, each, func(n int) ([]T, error) { return scan.List(ctx, n) })
	switch {
	case err != nil:
	case more:
		paged.Next = id(last)
	default:
		paged.Next, paged.Looked = scan.Unfinished()
	}
	return paged, err
}

// keySearch is how many published events are looked at for one with an id of the broker's.
const keySearch = 100_000

// EventOfKey finds an event by its dedupe key, the newest if there are several, or among the newest
// published events by the id that the broker gave it.
func (o *Outbox) EventOfKey(ctx context.Context, key string) (id string, err error) {
	err = pgx.ErrNoRows
	if utf8.ValidString(key) && !strings.ContainsRune(key, 0) {
		err = o.DB.QueryRow(ctx, selectByDedupeKey, key).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			err = o.DB.QueryRow(ctx, selectByBrokerID, key, keySearch).Scan(&id)
		}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", fault.NotFoundf("no event has the dedupe key %q, and none of the newest %s published events has it as the broker's id",
			safetext.Cut(safetext.Line(key), 60), words.Count(keySearch))
	case err != nil:
		return "", fmt.Errorf("find the event of a key: %w", err)
	}
	return id, nil
}

// SuggestLimit is how many values a shell is offered.
const SuggestLimit = 30

// Suggestion is a value to complete, and a word about it.
type Suggestion struct {
	Value string `db:"value"`
	About string `db:"about"`
}

// idPrefix is the beginning of an id as it is typed.
var idPrefix = regexp.MustCompile(`^[0-9a-f-]{0,36}$`)

// IsIDPrefix reports whether text can be the beginning of an id.
func IsIDPrefix(text string) bool { return idPrefix.MatchString(text) }

// SuggestEvents lists the newest events in a status (empty: any) whose id begins with prefix. It
// looks at the newest thousand only: a completion must not search.
func (o *Outbox) SuggestEvents(ctx context.Context, status, prefix string) ([]Suggestion, error) {
	w, err := Filter{Status: status}.walk()
	if err != nil || !IsIDPrefix(prefix) {
		return nil, err
	}
	return Rows[Suggestion](ctx, o.DB, "suggest events", fmt.Sprintf(`
SELECT s.id::text AS value, s.status || ' ' || s.event_type::text AS about
  FROM (SELECT id FROM outbox_events WHERE %[1]s ORDER BY %[2]s DESC LIMIT 1000) AS e
  JOIN outbox_event_status AS s ON s.id = e.id
 WHERE starts_with(s.id::text, $1)
 ORDER BY s.%[2]s DESC
 LIMIT %[3]d`, And(w.Decided...), w.Key, SuggestLimit), prefix)
}
