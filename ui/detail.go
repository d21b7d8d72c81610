package ui

import (
	"context"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/why"
)

// detailData is one event, or one dead letter and its event.
type detailData struct {
	Letter *dlq.Entry
	// Event is nil when cleanup has removed its row.
	Event *outbox.Event
	why.Surroundings
	Why why.Result
	remedy
	ErasedAt *time.Time // of what it carried
}

// remedy is what can be done to an event, the right thing first.
type remedy struct {
	Verbs []string
	// Editable: its payload can be corrected. Hopeless: it would fail again unchanged.
	Editable, Hopeless bool
	// Unfit: that is because of what it carries, whatever it died of.
	Unfit bool
}

func remedyOf(state, reason string, erasedAt *time.Time) remedy {
	r := remedy{Verbs: verbsOf(state)}
	open, erased := state == dlq.StateOpen, erasedAt != nil || reason == string(outbox.ReasonErased)
	r.Editable = open && !erased && reason != string(outbox.ReasonAggregateMismatch) // an edit changes the payload alone
	if r.Hopeless = open && dlq.Hopeless(reason); r.Hopeless {                       // as it is, it is rather discarded
		slices.Reverse(r.Verbs)
	}
	if erased {
		r.Verbs = slices.DeleteFunc(r.Verbs, func(verb string) bool { return verb != dlq.Discard.Verb() })
	}
	return r
}

// remedyOf is what can be done to a dead letter. What it carries is held to the catalogue as a
// publisher would hold it, for an operator, who may read it; nothing of it is shown.
func (r *request) remedyOf(l dlq.Entry) remedy {
	out := remedyOf(l.State, l.Reason, l.ErasedAt)
	if !out.Editable || out.Hopeless || !r.h.cfg.AllowChanges || r.who.Role != Operator {
		return out
	}
	ctx, cancel := context.WithTimeout(r.Context(), r.h.cfg.QueryTimeout)
	defer cancel()
	content, err := r.h.changes.outbox().Content(ctx, l.ID)
	if err != nil {
		return out // what it died of is known all the same
	}
	types := r.h.reader.types.Load()
	row := dispatch.Claimed{
		Key: dispatch.Key{ID: l.EventID}, Namespace: l.Namespace, EventType: l.EventType, AggregateType: l.AggregateType, AggregateID: l.AggregateID,
		Payload: content.Payload, Headers: content.Headers,
	}
	if reason, _ := dispatch.Examine(types, func(string) wire.Limits { return types.Limits() }, &row); dlq.Hopeless(string(reason)) {
		out = remedyOf(l.State, string(reason), l.ErasedAt)
		out.Unfit = true
	}
	return out
}

func deadLetterPage(r *request) (*view, error) {
	found, err := why.DeadLetter(r.Context(), r.outbox, why.DetailParams{ID: r.PathValue("id")})
	if err != nil {
		return nil, err
	}
	d := detailData{
		Letter: &found.Entry, Event: found.Event, Surroundings: found.Surroundings, ErasedAt: found.ErasedAt,
		remedy: r.remedyOf(found.Entry),
	}
	if err := d.explain(r, found.EventID); err != nil {
		return nil, err
	}
	return &view{Title: "Dead letter", Command: "outboxctl dlq show " + found.ID, template: "detail", Data: d}, nil
}

func eventPage(r *request) (*view, error) {
	found, err := why.Event(r.Context(), r.outbox, why.DetailParams{ID: r.PathValue("id")})
	if err != nil {
		return nil, err
	}
	d := detailData{
		Event: &found.Event, Surroundings: found.Surroundings, ErasedAt: found.ErasedAt,
		remedy: remedyOf(found.Status, "", found.ErasedAt),
	}
	if err := d.explain(r, found.ID); err != nil {
		return nil, err
	}
	if e := found.Event; e.Status == outbox.StatusPending && !e.NextAttemptAt.After(r.now) {
		d.Verbs = nil // it is due: there is nothing to bring forward
	}
	return &view{Title: "Event", Command: "outboxctl event show " + found.ID, template: "detail", Data: d}, nil
}

// Status is that of the event. One that waits behind a dead event is parked.
func (d detailData) Status() string {
	if d.Why.State == why.Parked {
		return why.Parked
	}
	return d.Event.Status
}

func (d detailData) SubjectID() string {
	if d.Letter != nil {
		return d.Letter.ID
	}
	return d.Event.ID
}

func (d *detailData) explain(r *request, eventID string) (err error) {
	if d.Neighbours, err = withParked(r, d.Neighbours); err != nil {
		return err
	}
	d.Why, err = why.Explain(r.Context(), r.outbox, why.Params{ID: eventID, MaxAttempts: r.h.cfg.MaxAttempts})
	return err
}
