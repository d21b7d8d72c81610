package ui

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

const failuresShown = 200

// consumersData is the consumers, and what one of them or all fail on.
type consumersData struct {
	Consumers []stats.Consumer
	Failures  []consumers.Failure
	// Consumer is the one whose failures these are; empty: all.
	Consumer string
	More     bool
	// Measured: the broker says what waits. Unmeasured is why it does not, where it should.
	Measured   bool
	Unmeasured string
}

// waitingKept is how long an answer of the broker is good for, for all who ask.
const waitingKept = 5 * time.Second

// waiting is what waits for the consumers, as far as the broker says; err is why it does not.
type waiting struct {
	consumers []stats.Consumer
	err       error
}

// measure adds to the list what waits, as far as the broker says that in time.
func (r *request) measure(list []stats.Consumer) error {
	if r.h.cfg.Backlog == nil {
		return nil
	}
	w, _ := r.h.waiting.get(r.Context(), waitingKept, func(ctx context.Context) (waiting, error) {
		w := waiting{consumers: slices.Clone(list)}
		w.err = consumers.Measure(ctx, w.consumers, r.h.cfg.Backlog)
		return w, nil // an error is kept, too
	})
	for i := range list {
		if at := slices.IndexFunc(w.consumers, func(c stats.Consumer) bool { return c.Consumer == list[i].Consumer }); at >= 0 {
			list[i].Backlog = w.consumers[at].Backlog
		}
	}
	return w.err
}

func consumersPage(r *request) (*view, error) {
	q := r.URL.Query()
	p := consumers.FailuresParams{
		Consumer: q.Get("consumer"), State: q.Get("state"), EventType: q.Get("type"), Namespace: q.Get("namespace"),
		TenantID: q.Get("tenant"), Limit: failuresShown + 1,
	}
	err := p.Check()
	if err != nil {
		return nil, err
	}
	d := consumersData{Consumer: p.Consumer}
	if d.Consumers, err = consumers.List(r.Context(), &r.outbox.Outbox); err != nil {
		return nil, err
	}
	if err := r.measure(d.Consumers); err != nil {
		d.Unmeasured = safetext.Redact(err.Error())
	}
	d.Measured = slices.ContainsFunc(d.Consumers, func(c stats.Consumer) bool { return c.Backlog != nil })
	if d.Failures, err = consumers.Failures(r.Context(), r.outbox.DB, p); err != nil {
		return nil, err
	}
	if d.More = len(d.Failures) > failuresShown; d.More {
		d.Failures = d.Failures[:failuresShown]
	}
	return &view{Title: "Consumers", Command: "outboxctl consumer list", template: "consumers", Data: d}, nil
}

// retryConsumer plans to publish copies of what a consumer gave up.
func retryConsumer(r *request) (answer, error) {
	f := consumers.FailuresParams{Consumer: r.PathValue("consumer"), State: consumers.GaveUp}
	found, err := consumers.Failures(r.Context(), r.outbox.DB, f)
	switch {
	case err != nil:
		return answer{}, err
	case len(found) == 0:
		return answer{}, fault.NotFoundf("consumer %s has given up no event", f.Consumer)
	}
	note := cmp.Or(r.field("note"), "retry for consumer "+f.Consumer)
	params := dlq.ChangeParams{Action: dlq.Republish, Actor: r.who.Name, Note: note}
	for _, failure := range found {
		params.IDs = append(params.IDs, failure.EventID)
	}
	return r.planned(params)
}

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
