package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// recentQuery finds what was emitted lately by two index walks: ids begin with the time they were made at, and what waits
// behind a seq is new whatever its id. %s is the filter.
const recentQuery = `
WITH lately AS MATERIALIZED (
    SELECT id FROM outbox_events WHERE id BETWEEN %s::uuid AND %s::uuid
    UNION
    SELECT id FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL AND seq > %s::bigint)
SELECT id::text, seq FROM outbox_events WHERE id IN (SELECT id FROM lately) AND %s ORDER BY created_at, id`

// clocksApart is how far ahead of the database's the clock of a producer may be. Without a bound above, ids that are
// random would all be recent.
const clocksApart = time.Hour

// LastSeqSQL reads the end of the claim index. Rows with a lower seq may still be committed: what it returns is a hint.
// max(seq) could be planned as a walk.
const LastSeqSQL = `
SELECT coalesce((SELECT seq FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL ORDER BY seq DESC LIMIT 1), 0)`

// numbered is an event and its place in the queue.
type numbered struct {
	ID  string
	Seq int64
}

// recent finds the events of a filter that were made since a moment, or wait behind a seq, oldest first. now is the
// database's clock.
func (o *Outbox) recent(ctx context.Context, f Filter, since, now time.Time, seq int64) ([]numbered, error) {
	w, err := f.compile(false)
	if err != nil {
		return nil, err
	}
	from, to, behind := w.Bind(firstID(since)), w.Bind(firstID(now.Add(clocksApart))), w.Bind(seq)
	sql := fmt.Sprintf(recentQuery, from, to, behind, And(append(w.Decided, w.Rest...)...))
	return Rows[numbered](ctx, o.DB, "look for new events", sql, w.Args...)
}

// checkTypes returns an error for types that the column cannot hold. A query that meets no row may never look at them.
func (o *Outbox) checkTypes(ctx context.Context, types []string) error {
	var n int
	return o.DB.QueryRow(ctx, `SELECT count(outbox_event_type(t)) FROM unnest($1::text[]) AS t`, types).Scan(&n)
}

// firstID is below every UUID of version 7 that is made at a moment or later.
func firstID(at time.Time) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	return id.String()
}

// lastSeq is the largest seq of the events that wait, or 0.
func (o *Outbox) lastSeq(ctx context.Context) (seq int64, err error) {
	if err := o.DB.QueryRow(ctx, LastSeqSQL).Scan(&seq); err != nil {
		return 0, fmt.Errorf("look for the newest event: %w", err)
	}
	return seq, nil
}
