package dlq

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// SuggestEntries lists the newest dead letters in a state (empty: any) whose id
// begins with prefix. It looks at the newest thousand only: a completion must
// not search.
func (s *Store) SuggestEntries(ctx context.Context, state, prefix string) ([]outbox.Suggestion, error) {
	c, err := Filter{State: state}.compile()
	if err != nil || !outbox.IsIDPrefix(prefix) {
		return nil, err
	}
	where, _ := c.where() // a state alone has no arguments
	return collect(ctx, s.db, pgx.RowToStructByName[outbox.Suggestion], fmt.Sprintf(`
SELECT id::text AS value, event_type::text || ' ' || error_reason::text || ': ' || left(error_message, 60) AS about
  FROM (SELECT id, event_type, error_reason, error_message, failed_at FROM outbox_dlq WHERE %s ORDER BY failed_at DESC, id DESC LIMIT 1000) AS d
 WHERE starts_with(id::text, $1)
 ORDER BY failed_at DESC, id DESC
 LIMIT %d`, where, outbox.SuggestLimit), prefix)
}

// SuggestGroups lists the commonest values of a column among the newest open dead letters.
func (s *Store) SuggestGroups(ctx context.Context, by string) ([]outbox.Suggestion, error) {
	column, ok := groupColumns()[by]
	if !ok {
		return nil, fmt.Errorf("cannot group by %q", by)
	}
	return collect(ctx, s.db, pgx.RowToStructByName[outbox.Suggestion], fmt.Sprintf(`
SELECT %[1]s::text AS value, min(left(error_message, 80)) AS about
  FROM (SELECT %[1]s, error_message FROM outbox_dlq WHERE state = 'open' ORDER BY failed_at DESC, id DESC LIMIT %[2]d) AS d
 WHERE %[1]s IS NOT NULL
 GROUP BY 1
 ORDER BY count(*) DESC, 1
 LIMIT %[3]d`, column, outbox.MaxWindow, outbox.SuggestLimit))
}
