package ui

import (
	"strings"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// searchPage leads from an id or key to the page of what has it: an event, a dead letter, a plan or run, an aggregate, a tenant.
func searchPage(r *request) (*view, error) {
	q := r.URL.Query()
	if err := known(q, "q"); err != nil {
		return nil, err
	}
	words := strings.TrimSpace(one(q, "q", ""))
	if words == "" {
		return nil, fault.Usagef("type an id: of an event, a dead letter, a run, an aggregate or a tenant, a dedupe key, or an id that the broker gave")
	}
	id, err := operate.ParseID(words)
	if err != nil {
		return searchKey(r, words)
	}
	if _, err := r.outbox.Plan(r.Context(), id); err == nil {
		return &view{redirect: "/runs/" + id}, nil
	}
	if found, err := r.outbox.DeadLetterDetail(r.Context(), operate.DetailParams{ID: id}); err == nil {
		return &view{redirect: "/dead-letters/" + found.ID}, nil
	}
	if found, err := r.outbox.EventDetail(r.Context(), operate.DetailParams{ID: id}); err == nil {
		return &view{redirect: "/events/" + found.ID}, nil
	}
	// Asking for an aggregate whose id the database cannot read ends the transaction: it comes late.
	if found, err := r.outbox.EventOfKey(r.Context(), words); err == nil {
		return &view{redirect: "/events/" + found}, nil
	}
	if r.someEvent(outbox.Filter{AggregateIDs: []string{id}}) {
		return &view{redirect: "/events" + query([]string{"aggregate", id})}, nil
	}
	if r.someDeadLetter(dlq.Filter{Tenants: []string{id}}) {
		return &view{redirect: "/dead-letters" + query([]string{"state", "all", "tenant", id})}, nil
	}
	return nil, fault.NotFoundf("nothing here has the id %s: no event, dead letter, run, aggregate, dedupe key, or tenant of a dead letter", id)
}

// searchKey is for words that are no UUIDs, which keys, the broker's ids and aggregates have.
func searchKey(r *request, words string) (*view, error) {
	found, err := r.outbox.EventOfKey(r.Context(), words)
	if err == nil {
		return &view{redirect: "/events/" + found}, nil
	}
	if kind, ids, badly := operate.ParseAggregate(words); badly == nil && r.someEvent(outbox.Filter{AggregateType: kind, AggregateIDs: ids}) {
		return &view{redirect: "/events" + query([]string{"aggregate", words})}, nil
	}
	return nil, err
}

// someEvent reports whether there is an event of a filter. An id that the database cannot read has none.
func (r *request) someEvent(f outbox.Filter) (some bool) {
	_, err := r.outbox.ListEvents(r.Context(), operate.ListEventsParams{Filter: f, Page: operate.Page{Limit: 1}}, func(outbox.Event) error { some = true; return nil })
	return err == nil && some
}

func (r *request) someDeadLetter(f dlq.Filter) (some bool) {
	_, err := r.outbox.ListDeadLetters(r.Context(), operate.ListDeadLettersParams{Filter: f, Page: operate.Page{Limit: 1}}, func(dlq.Entry) error { some = true; return nil })
	return err == nil && some
}
