package ui

import (
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

// failuresShown is how many failures the page shows, and the API at most.
const failuresShown = 200

// consumersData is the consumers, and what one of them or all fail on.
type consumersData struct {
	Now       time.Time
	Consumers []stats.Consumer
	Failures  []consumers.Failure
	// Consumer is the one whose failures these are; empty: all.
	Consumer string
	More     bool
}

func consumersPage(r *request) (*view, error) {
	p, err := failuresOf(r)
	if err != nil {
		return nil, err
	}
	d := consumersData{Consumer: p.Consumer}
	if d.Now, err = r.outbox.Now(r.Context()); err != nil {
		return nil, err
	}
	if d.Consumers, err = consumers.List(r.Context(), &r.outbox.Outbox); err != nil {
		return nil, err
	}
	p.Limit = failuresShown + 1
	if d.Failures, err = consumers.Failures(r.Context(), r.outbox.DB, p); err != nil {
		return nil, err
	}
	if d.More = len(d.Failures) > failuresShown; d.More {
		d.Failures = d.Failures[:failuresShown]
	}
	return &view{Title: "Consumers", Command: "outboxctl consumer list", template: "consumers", Data: d}, nil
}

// failuresOf reads which failures are asked for.
func failuresOf(r *request) (p consumers.FailuresParams, err error) {
	q := r.URL.Query()
	if err := known(q, "consumer", "state", "type", "namespace", "tenant"); err != nil {
		return p, err
	}
	p = consumers.FailuresParams{
		Consumer: q.Get("consumer"), State: q.Get("state"), EventType: q.Get("type"), Namespace: q.Get("namespace"),
		TenantID: q.Get("tenant"), Limit: failuresShown,
	}
	return p, p.Check()
}

func consumerListAPI(r *request) (answer, error) {
	if err := known(r.URL.Query()); err != nil {
		return answer{}, err
	}
	list, err := consumers.List(r.Context(), &r.outbox.Outbox)
	return answer{body: list}, err
}

func failuresAPI(r *request) (answer, error) {
	p, err := failuresOf(r)
	if err != nil {
		return answer{}, err
	}
	list, err := consumers.Failures(r.Context(), r.outbox.DB, p)
	return answer{body: list}, err
}

// retryConsumer makes the plan to publish copies of what a consumer gave up, or of the events with these ids that it fails on.
func retryConsumer(r *changeRequest) (changed, error) {
	var p struct {
		IDs  texts  `json:"ids"`
		Note string `json:"note"`
	}
	if err := r.decode(&p); err != nil {
		return changed{}, err
	}
	f := consumers.FailuresParams{Consumer: r.PathValue("consumer"), EventIDs: p.IDs}
	if len(p.IDs) == 0 {
		f.State = consumers.GaveUp
	}
	found, err := consumers.Failures(r.Context(), r.outbox.DB, f)
	switch {
	case err != nil:
		return changed{}, err
	case len(found) == 0:
		return changed{}, fault.NotFoundf("consumer %s has given up none of these events", f.Consumer)
	}
	params := dlq.ChangeParams{Action: dlq.Republish, Actor: r.who.Name, Note: strings.TrimSpace(p.Note)}
	if params.Note == "" {
		params.Note = "retry for consumer " + f.Consumer
	}
	for _, failure := range found {
		params.IDs = append(params.IDs, failure.EventID)
	}
	id, err := r.h.changes.plan(r.Context(), params)
	if err != nil {
		return changed{}, err
	}
	return r.plan(id)
}

// failingConsumers is how many consumers fail, for the menu.
func failingConsumers(s snapshot) string {
	n := 0
	if s.Stats != nil {
		for _, c := range s.Stats.Consumers {
			if c.Failing+c.GaveUp > 0 {
				n++
			}
		}
	}
	if n == 0 {
		return ""
	}
	return words.Count(int64(n))
}
