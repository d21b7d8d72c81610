package dlq

import (
	"context"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// endsLooked is how many of the newest rows are looked at for an id that ends so: no index has its end. endsFound is how many are named.
const (
	endsLooked = 100_000
	endsFound  = 20
)

// ByEnds is an event or a dead letter whose id begins and ends as was asked.
type ByEnds struct {
	// Kind is event, or dead letter.
	Kind string
	ID   string
}

// With a beginning it reads a part of the primary keys, else their newest ends.
const selectByEnds = `
SELECT kind, id FROM (
    SELECT 'dead letter' AS kind, d.id::text AS id
      FROM (SELECT id FROM outbox_dlq WHERE id BETWEEN $1::text::uuid AND $2::text::uuid ORDER BY id DESC LIMIT $4) AS d
    UNION ALL
    SELECT 'event', e.id::text
      FROM (SELECT id FROM outbox_events WHERE id BETWEEN $1::text::uuid AND $2::text::uuid ORDER BY id DESC LIMIT $4) AS e) AS newest
 WHERE right(id, length($3::text)) = $3
 LIMIT $5`

// FindByEnds finds events and dead letters by the first eight digits of their ids, which may be empty, and the last ones.
func (o *Outbox) FindByEnds(ctx context.Context, first, last string) ([]ByEnds, error) {
	low, high := "00000000", "ffffffff"
	if first != "" {
		low, high = first, first
	}
	return outbox.Rows[ByEnds](ctx, o.DB, "find by the end of an id", selectByEnds,
		low+"-0000-0000-0000-000000000000", high+"-ffff-ffff-ffff-ffffffffffff", last, endsLooked, endsFound)
}
