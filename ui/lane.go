package ui

import (
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

const laneRows = 200

// laneData is what waits in an ordering key, in turn.
type laneData struct {
	Key string
	// Head is the first event; nil: nothing waits. Followers wait for it.
	Head      *outbox.Event
	Followers []outbox.Event
	More      bool
	Letter    *dlq.Entry // of a dead head
	remedy
}

func lanePage(r *request) (*view, error) {
	key := one(r.URL.Query(), "key", "")
	if key == "" {
		return nil, fault.Hint(fault.Usagef("specify key: an ordering key"), "/dead-letters?blocking=true lists what blocks one")
	}
	rows, err := r.outbox.Lane(r.Context(), key, laneRows+1)
	if err != nil {
		return nil, err
	}
	if rows, err = withParked(r, rows); err != nil {
		return nil, err
	}
	v := &view{Title: "Ordering key", Command: "outboxctl dlq list --blocking", template: "lane"}
	d := laneData{Key: key, More: len(rows) > laneRows}
	if len(rows) > 0 {
		d.Head, d.Followers = &rows[0], rows[1:min(len(rows), laneRows)]
		if v.Command = "outboxctl why " + d.Head.ID; d.Head.DeadAt != nil {
			letter, err := r.outbox.DeadLetter(r.Context(), d.Head.ID)
			if kind, _ := fault.KindOf(err); err != nil && kind != fault.NotFound { // cleanup may have removed it
				return nil, err
			} else if err == nil {
				d.Letter, d.remedy = &letter, r.remedyOf(letter)
			}
		}
	}
	v.Data = d
	return v, nil
}
