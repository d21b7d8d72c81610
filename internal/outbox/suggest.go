package outbox

import (
	"context"
	"fmt"
	"regexp"
)

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

// SuggestEvents lists the newest events in a status (empty: any) whose id begins with prefix. It looks at the newest
// thousand only: a completion must not search.
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
