package dlq

import (
	"context"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// SuggestEntries lists the newest dead letters in a state (empty: any) whose id
// begins with prefix. It looks at the newest thousand only: a completion must
// not search.
func (o *Outbox) SuggestEntries(ctx context.Context, state, prefix string) ([]outbox.Suggestion, error) {
	f := Filter{State: state}
	w, err := compile(f)
	if err != nil || !outbox.IsIDPrefix(prefix) {
		return nil, err
	}
	return outbox.Rows[outbox.Suggestion](ctx, o.DB, "suggest dead letters", fmt.Sprintf(`
SELECT id::text AS value, event_type::text || ' ' || error_reason::text || ': ' || left(error_message, 60) AS about
  FROM (SELECT id, event_type, error_reason, error_message, failed_at FROM outbox_dlq WHERE %s ORDER BY failed_at DESC, id DESC LIMIT 1000) AS d
 WHERE starts_with(id::text, $1)
 ORDER BY failed_at DESC, id DESC
 LIMIT %d`, where(f, &w), outbox.SuggestLimit), prefix)
}

// SuggestGroups lists the commonest values of a column among the newest open dead letters.
func (o *Outbox) SuggestGroups(ctx context.Context, by string) ([]outbox.Suggestion, error) {
	column, ok := groupColumns()[by]
	if !ok {
		return nil, fmt.Errorf("cannot group by %q", by)
	}
	return outbox.Rows[outbox.Suggestion](ctx, o.DB, "suggest dead letters", fmt.Sprintf(`
SELECT %[1]s::text AS value, min(left(error_message, 80)) AS about
  FROM (SELECT %[1]s, error_message FROM outbox_dlq WHERE state = 'open' ORDER BY failed_at DESC, id DESC LIMIT %[2]d) AS d
 WHERE %[1]s IS NOT NULL
 GROUP BY 1
 ORDER BY count(*) DESC, 1
 LIMIT %[3]d`, column, outbox.MaxWindow, outbox.SuggestLimit))
}
