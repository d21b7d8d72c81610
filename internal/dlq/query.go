package dlq

import (
	"errors"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// States are the states that dead letters can be asked for in.
func States() []string {
	return []string{StateOpen, StateReplayed, StateDiscarded, outbox.AllStates}
}

// Query chooses dead letters, in the words of a person: those of the flags, and of the page's addresses.
type Query struct {
	Reasons      []string
	Types        []string
	Topics       []string
	Fingerprints []string
	// Aggregate is an id, a type, or type/id.
	Aggregate  string
	Tenants    []string
	Namespaces []string
	// Since and Until are times, dates, or how long ago.
	Since     string
	Until     string
	ErrorLike string
	// Blocking: events of the same ordering key wait for it.
	Blocking bool
	// State is open, replayed, discarded or all.
	State string
}

// Filter reads the query and reports everything that is wrong with it. now is the database's clock.
func (q Query) Filter(now time.Time) (Filter, error) {
	out := Filter{
		State: q.State, Reasons: q.Reasons, Types: q.Types, Topics: q.Topics, Fingerprints: q.Fingerprints,
		Namespaces: q.Namespaces, ErrorLike: q.ErrorLike, Blocking: q.Blocking,
	}
	var problems []error
	err := words.OneOf("--state", q.State, States())
	if err != nil {
		problems = append(problems, err)
	}
	if q.State == outbox.AllStates {
		out.State = ""
	}
	for _, r := range q.Reasons {
		if err := words.OneOf("--reason", r, outbox.DeadReasons()); err != nil {
			problems = append(problems, err)
		}
	}
	if out.AggregateType, out.AggregateIDs, err = outbox.ParseAggregate(q.Aggregate); err != nil {
		problems = append(problems, err)
	}
	if out.Tenants, err = outbox.ParseTenants(q.Tenants); err != nil {
		problems = append(problems, err)
	}
	if out.Since, out.Until, err = outbox.ParseSpan(q.Since, q.Until, now); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return Filter{}, fault.As(fault.Usage, errors.Join(problems...))
	}
	return out, nil
}

// Names are the names that the query gives.
func (q Query) Names() []outbox.FilterName {
	names := append(outbox.FilterNames(outbox.KindType, q.Types), outbox.FilterNames(outbox.KindTopic, q.Topics)...)
	return append(names, outbox.FilterNames(outbox.KindNamespace, q.Namespaces)...)
}
