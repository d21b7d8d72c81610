package registry

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// maxJudged bounds how many waiting rows are judged, the oldest ones.
const maxJudged = 100_000

// Backlog is what a publisher would do with the rows that wait.
type Backlog struct {
	// Judged is how many of them were looked at, the oldest ones.
	Judged int64 `json:"judged"`
	// Publish would be sent; OtherEventID of them have an envelope with another id than the row's.
	Publish      int64 `json:"publish"`
	OtherEventID int64 `json:"otherEventId"`
	// AttemptsSpent die at their first claim, keeping their last error: they have used up their attempts.
	AttemptsSpent int64 `json:"attemptsSpent"`
	// Die would die for what they are.
	Die []Refusal `json:"die"`
}

// Judge judges the rows that wait, as a publisher with this maximum of attempts would. It reads the nine columns that every table
// has, by which an index on published_at may lead to them; with dies, the table has dead_at as well.
func (r *Registry) Judge(ctx context.Context, tx pgx.Tx, maxAttempts int, dies bool) (b Backlog, err error) {
	living := ""
	if dies {
		living = " AND dead_at IS NULL"
	}
	query := `SELECT id::text, '` + outbox.DefaultNamespace + `', event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, NULL::text, attempt_count
  FROM outbox_events WHERE published_at IS NULL` + living + ` ORDER BY created_at LIMIT $1`
	refused := refusals{}
	err = refused.judge(ctx, tx, r, func(row *dispatch.Claimed, refusal func() *Refusal) {
		b.Judged++
		switch {
		case row.AttemptCount >= maxAttempts:
			b.AttemptsSpent++
		case refusal != nil:
			refusal().Waiting++
		default:
			b.Publish++
			if row.Notes.OtherID {
				b.OtherEventID++
			}
		}
	}, query, maxJudged)
	b.Die = refused.list()
	return b, err
}
