package dlq

import (
	"context"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// suggestLimit is how many values a shell is offered.
const suggestLimit = 30

// Suggestion is a value to complete, and a word about it.
type Suggestion struct {
	Value string
	About string
}

func scanSuggestion(row pgx.CollectableRow) (s Suggestion, err error) {
	return s, row.Scan(&s.Value, &s.About)
}

// idPrefix is the beginning of an id as it is typed.
var idPrefix = regexp.MustCompile(`^[0-9a-f-]{0,36}$`)

// SuggestEntries lists the newest dead letters in a state (empty: any) whose id
// begins with prefix. It looks at the newest thousand only: a completion must
// not search.
func (s *Store) SuggestEntries(ctx context.Context, state, prefix string) ([]Suggestion, error) {
	c, err := Filter{State: state}.compile()
	if err != nil || !idPrefix.MatchString(prefix) {
		return nil, err
	}
	where, _ := c.where() // a state alone has no arguments
	return collect(ctx, s.db, scanSuggestion, fmt.Sprintf(`
SELECT id::text, event_type::text || ' ' || error_reason::text || ': ' || left(error_message, 60)
  FROM (SELECT id, event_type, error_reason, error_message, failed_at FROM outbox_dlq WHERE %s ORDER BY failed_at DESC, id DESC LIMIT 1000) AS d
 WHERE starts_with(id::text, $1)
 ORDER BY failed_at DESC, id DESC
 LIMIT %d`, where, suggestLimit), prefix)
}

// SuggestEvents lists the newest events in a status (empty: any) whose id begins with prefix.
func (s *Store) SuggestEvents(ctx context.Context, status, prefix string) ([]Suggestion, error) {
	w, err := EventFilter{Status: status}.walk()
	if err != nil || !idPrefix.MatchString(prefix) {
		return nil, err
	}
	where := w.where
	if where == "" {
		where = "true"
	}
	return collect(ctx, s.db, scanSuggestion, fmt.Sprintf(`
SELECT s.id::text, s.status || ' ' || s.event_type::text
  FROM (SELECT id FROM outbox_events WHERE %[1]s ORDER BY %[2]s DESC LIMIT 1000) AS e
  JOIN outbox_event_status AS s ON s.id = e.id
 WHERE starts_with(s.id::text, $1)
 ORDER BY s.%[2]s DESC
 LIMIT %[3]d`, where, w.key, suggestLimit), prefix)
}

// SuggestGroups lists the commonest values of a column among the newest open dead letters.
func (s *Store) SuggestGroups(ctx context.Context, by string) ([]Suggestion, error) {
	column, ok := groupColumns()[by]
	if !ok {
		return nil, fmt.Errorf("cannot group by %q", by)
	}
	return collect(ctx, s.db, scanSuggestion, fmt.Sprintf(`
SELECT %[1]s::text, min(left(error_message, 80))
  FROM (SELECT %[1]s, error_message FROM outbox_dlq WHERE state = 'open' ORDER BY failed_at DESC, id DESC LIMIT %[2]d) AS d
 WHERE %[1]s IS NOT NULL
 GROUP BY 1
 ORDER BY count(*) DESC, 1
 LIMIT %[3]d`, column, scanWindow, suggestLimit))
}

// EnumValues lists the values of an enum of the schema.
func (s *Store) EnumValues(ctx context.Context, enum string) ([]string, error) {
	return collect(ctx, s.db, pgx.RowTo[string],
		"SELECT enumlabel::text FROM pg_enum WHERE enumtypid = to_regtype($1) ORDER BY enumsortorder", enum)
}
