package ui

import (
	"strings"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// searchPage leads from an id to the page of what has it: an event, a dead letter, a plan or run, an aggregate, a tenant.
func searchPage(r *request) (*view, error) {
	q := r.URL.Query()
	if err := known(q, "q"); err != nil {
		return nil, err
	}
	words := strings.TrimSpace(one(q, "q", ""))
	if words == "" {
		return nil, fault.Usagef("type an id: of an event, a dead letter, a run, an aggregate or a tenant")
	}
	id, err := operate.ParseID(words)
	if err != nil {
		return searchAggregate(r, words, err)
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
	if r.someEvent(outbox.Filter{AggregateIDs: []string{id}}) {
		return &view{redirect: "/events" + query([]string{"aggregate", id})}, nil
	}
	if r.someDeadLetter(dlq.Filter{Tenants: []string{id}}) {
		return &view{redirect: "/dead-letters" + query([]string{"state", "all", "tenant", id})}, nil
	}
	return nil, fault.NotFoundf("nothing here has the id %s: no event, dead letter, run, aggregate, or tenant of a dead letter", id)
}

// searchAggregate is for ids that are no UUIDs, which only aggregates have.
func searchAggregate(r *request, words string, notAnID error) (*view, error) {
	kind, ids, err := operate.ParseAggregate(words)
	if err != nil || !r.someEvent(outbox.Filter{AggregateType: kind, AggregateIDs: ids}) {
		return nil, notAnID
	}
	return &view{redirect: "/events" + query([]string{"aggregate", words})}, nil
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
