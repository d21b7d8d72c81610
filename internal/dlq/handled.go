package dlq

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// handledRows is how many of the dead letters that were handled last are looked at for what was done about a cause.
const handledRows = 2000

// Handled is what was done lately about dead letters of one cause.
type Handled struct {
	Fingerprint string `db:"fingerprint"`
	Replayed    int64  `db:"replayed"`
	Discarded   int64  `db:"discarded"`
	// DiedAgain is how many of those that were replayed have died since.
	DiedAgain int64 `db:"died_again"`
	// At and Actor are those of the last time.
	At    time.Time `db:"at"`
	Actor string    `db:"actor"`
}

// The newest rows of outbox_dlq_handled_idx; each replayed one costs a look at outbox_dlq_event_idx.
const selectHandled = `
WITH recent AS (
    SELECT d.fingerprint, d.state, d.state_changed_at, d.audit_id, d.event_id
      FROM outbox_dlq AS d
     WHERE d.state <> 'open' AND d.state_changed_at IS NOT NULL
     ORDER BY d.state_changed_at DESC
     LIMIT $1),
causes AS (
    SELECT r.fingerprint, count(*) FILTER (WHERE r.state = 'replayed') AS replayed, count(*) FILTER (WHERE r.state = 'discarded') AS discarded,
           count(*) FILTER (WHERE r.state = 'replayed' AND EXISTS (
               SELECT FROM outbox_dlq AS again WHERE again.event_id = r.event_id AND again.failed_at > r.state_changed_at)) AS died_again,
           max(r.state_changed_at) AS at, (array_agg(r.audit_id ORDER BY r.state_changed_at DESC))[1] AS audit_id
      FROM recent AS r
     WHERE r.fingerprint = ANY ($2::text[])
     GROUP BY 1)
SELECT c.fingerprint, c.replayed, c.discarded, c.died_again, c.at, coalesce(a.actor, '') AS actor
  FROM causes AS c
  LEFT JOIN outbox_audit AS a ON a.id = c.audit_id`

// HandledCauses returns, by fingerprint, what was done lately about dead letters that had them, and with what success.
func (o *Outbox) HandledCauses(ctx context.Context, fingerprints []string) (map[string]Handled, error) {
	found, err := outbox.Rows[Handled](ctx, o.DB, "read what was done about causes", selectHandled, handledRows, fingerprints)
	byCause := make(map[string]Handled, len(found))
	for _, h := range found {
		byCause[h.Fingerprint] = h
	}
	return byCause, err
}
