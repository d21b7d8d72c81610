package operate

import (
	"errors"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// allStates is how one asks for rows in any state.
const allStates = "all"

// DeadLetterStates are the states that dead letters can be asked for in.
func DeadLetterStates() []string {
	return []string{dlq.StateOpen, dlq.StateReplayed, dlq.StateDiscarded, allStates}
}

// DeadLetterQuery chooses dead letters, in the words of a person: those of the flags, and of the page's addresses.
type DeadLetterQuery struct {
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
func (q DeadLetterQuery) Filter(now time.Time) (dlq.Filter, error) {
	out := dlq.Filter{
		State: q.State, Reasons: q.Reasons, Types: q.Types, Topics: q.Topics, Fingerprints: q.Fingerprints,
		Namespaces: q.Namespaces, ErrorLike: q.ErrorLike, Blocking: q.Blocking,
	}
	var problems []error
	err := OneOf("--state", q.State, DeadLetterStates())
	if err != nil {
		problems = append(problems, err)
	}
	if q.State == allStates {
		out.State = ""
	}
	for _, r := range q.Reasons {
		if err := OneOf("--reason", r, outbox.DeadReasons()); err != nil {
			problems = append(problems, err)
		}
	}
	if out.AggregateType, out.AggregateIDs, err = ParseAggregate(q.Aggregate); err != nil {
		problems = append(problems, err)
	}
	if out.Tenants, err = ParseTenants(q.Tenants); err != nil {
		problems = append(problems, err)
	}
	if out.Since, out.Until, err = ParseSpan(q.Since, q.Until, now); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return dlq.Filter{}, fault.As(fault.Usage, errors.Join(problems...))
	}
	return out, nil
}

// EventQuery chooses events, in the words of a person.
type EventQuery struct {
	// Status is one of outbox.Statuses, or all.
	Status string
	Types  []string
	// Aggregate is an id, a type, or type/id.
	Aggregate  string
	Tenants    []string
	Namespaces []string
	// Since and Until are times, dates, or how long ago.
	Since string
	Until string
}

// Filter reads the query and reports everything that is wrong with it. now is the database's clock.
func (q EventQuery) Filter(now time.Time) (outbox.Filter, error) {
	out := outbox.Filter{Status: q.Status, Types: q.Types, Namespaces: q.Namespaces}
	var problems []error
	err := OneOf("--status", q.Status, append(outbox.Statuses(), allStates))
	if err != nil {
		problems = append(problems, err)
	}
	if q.Status == allStates {
		out.Status = ""
	}
	if out.AggregateType, out.AggregateIDs, err = ParseAggregate(q.Aggregate); err != nil {
		problems = append(problems, err)
	}
	if out.Tenants, err = ParseTenants(q.Tenants); err != nil {
		problems = append(problems, err)
	}
	if out.Since, out.Until, err = ParseSpan(q.Since, q.Until, now); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return outbox.Filter{}, fault.As(fault.Usage, errors.Join(problems...))
	}
	return out, nil
}
