package outbox

import (
	"context"
	"time"

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
	// Failed is told of a look that failed after the first; the next one goes on. Nil ends the tail with the error.
	Failed func(error)
}

// TailEvents passes the events of a filter to each as they are committed, until ctx ends. Transactions commit in another
// order than they were begun in: each look goes back ten seconds.
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
