package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// tailBack is how long after its making an event may be committed and still be shown.
const tailBack = 10 * time.Second

// TailEventsParams selects the events to follow.
type TailEventsParams struct {
	Filter Filter
	// Every is the pause between two looks.
	Every time.Duration
	// Failed is told of a look that failed after the first; the next one goes on. Nil ends the tail
	// with the error.
	Failed func(error)
}

// TailEvents passes the events of a filter to each as they are committed, until ctx ends.
// Transactions commit in another order than they were begun in: each look goes back ten seconds.
func (o *Outbox) TailEvents(ctx context.Context, p TailEventsParams, each func(Event) error) error {
	if p.Every <= 0 {
		return fault.Usagef("the pause between two looks must be positive")
	}
	if err := o.AddTopics(&p.Filter); err != nil {
		return err
	}
	if err := o.checkTypes(ctx, p.Filter.Types); err != nil {
		return err
	}
	if err := o.SettleAggregate(ctx, &p.Filter); err != nil {
		return err
	}
	began, err := o.Now(ctx)
	if err != nil {
		return err
	}
	seq, err := o.lastSeq(ctx)
	if err != nil {
		return err
	}
	t := tail{outbox: o, filter: p.Filter, seen: map[string]time.Time{}, since: began, seq: seq}
	for first := true; ; first = false {
		fresh, err := t.look(ctx)
		if first {
			fresh = nil // what is there already is not new
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || p.Failed == nil):
			return err
		case err != nil:
			p.Failed(err)
		}
		for _, e := range fresh {
			if err := each(e); err != nil {
				return err
			}
		}
		if wait.For(ctx, p.Every) != nil {
			return nil
		}
	}
}

// tail is where a tail has got to.
type tail struct {
	outbox *Outbox
	filter Filter
	// since and seq are where the next look begins, and marks where later ones will.
	since time.Time
	seq   int64
	marks []mark
	seen  map[string]time.Time // events passed on, and when a look found them last
}

// mark is the largest seq at a moment.
type mark struct {
	at  time.Time
	seq int64
}

// look returns the events that were not there before.
func (t *tail) look(ctx context.Context) ([]Event, error) {
	now, err := t.outbox.Now(ctx)
	if err != nil {
		return nil, err
	}
	found, err := t.outbox.recent(ctx, t.filter, t.since.Add(-tailBack), now, t.seq)
	if err != nil {
		return nil, err
	}
	last := mark{now, t.seq}
	var fresh []string
	for _, e := range found {
		last.seq = max(last.seq, e.Seq)
		if _, shown := t.seen[e.ID]; !shown {
			fresh = append(fresh, e.ID)
		}
	}
	events, err := t.outbox.Events(ctx, fresh)
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		t.seen[e.ID] = now
	}
	t.moveOn(last)
	return events, nil
}

// moveOn lets the next look begin later, and forgets what none goes back to.
func (t *tail) moveOn(last mark) {
	t.since, t.marks = last.at, append(t.marks, last)
	for last.at.Sub(t.marks[0].at) > tailBack {
		t.seq, t.marks = t.marks[0].seq, t.marks[1:]
	}
	for id, at := range t.seen {
		if last.at.Sub(at) > 3*tailBack {
			delete(t.seen, id)
		}
	}
}

// recentQuery finds what was emitted lately by two index walks: ids begin with the time they were
// made at, and what waits behind a seq is new whatever its id. %s is the filter.
const recentQuery = `
WITH lately AS MATERIALIZED (
    SELECT id FROM outbox_events WHERE id BETWEEN %s::uuid AND %s::uuid
    UNION
    SELECT id FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL AND seq > %s::bigint)
SELECT id::text, seq FROM outbox_events WHERE id IN (SELECT id FROM lately) AND %s ORDER BY created_at, id`

// clocksApart is how far ahead of the database's the clock of a producer may be. Without a bound
// above, ids that are random would all be recent.
const clocksApart = time.Hour

// LastSeqSQL reads the end of the claim index. Rows with a lower seq may still be committed: what
// it returns is a hint. max(seq) could be planned as a walk.
const LastSeqSQL = `
SELECT coalesce((SELECT seq FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL ORDER BY seq DESC LIMIT 1), 0)`

// numbered is an event and its place in the queue.
type numbered struct {
	ID  string
	Seq int64
}

// recent finds the events of a filter that were made since a moment, or wait behind a seq, oldest
// first. now is the database's clock.
func (o *Outbox) recent(ctx context.Context, f Filter, since, now time.Time, seq int64) ([]numbered, error) {
	w, err := f.compile(false)
	if err != nil {
		return nil, err
	}
	from, to, behind := w.Bind(firstID(since)), w.Bind(firstID(now.Add(clocksApart))), w.Bind(seq)
	sql := fmt.Sprintf(recentQuery, from, to, behind, And(append(w.Decided, w.Rest...)...))
	return Rows[numbered](ctx, o.DB, "look for new events", sql, w.Args...)
}

// checkTypes returns an error for types that the column cannot hold. A query that meets no row may
// never look at them.
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
func (o *Outbox) lastSeq(ctx context.Context) (int64, error) {
	return One[int64](ctx, o.DB, "look for the newest event", LastSeqSQL)
}
