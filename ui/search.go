package ui

import (
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/why"
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
	found, err := why.Find(r.Context(), r.outbox, words)
	if err != nil {
		return nil, err
	}
	return &view{redirect: pageOf(found)}, nil
}

// pageOf is the address that shows what was found.
func pageOf(found why.Found) string {
	switch found.Kind {
	case why.FoundPlan:
		return "/plans/" + found.ID
	case why.FoundDeadLetter:
		return "/dead-letters/" + found.ID
	case why.FoundAggregate:
		return "/events" + query([]any{"aggregate", found.ID})
	case why.FoundTenant:
		return "/dead-letters" + query([]any{"state", "all", "tenant", found.ID})
	default:
		return "/events/" + found.ID
	}
}
