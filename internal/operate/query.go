package operate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

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
	switch q.State {
	case dlq.StateOpen, dlq.StateReplayed, dlq.StateDiscarded:
	case "all":
		out.State = ""
	default:
		problems = append(problems, fmt.Errorf("--state: %q is none of open, replayed, discarded, all", q.State))
	}
	for _, r := range q.Reasons {
		if !slices.Contains(outbox.DeadReasons(), r) {
			problems = append(problems, fmt.Errorf("--reason: %q is none of %s", r, strings.Join(outbox.DeadReasons(), ", ")))
		}
	}
	var err error
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
	switch {
	case q.Status == "all":
		out.Status = ""
	case !slices.Contains(outbox.Statuses(), q.Status):
		problems = append(problems, fmt.Errorf("--status: %q is none of %s, all", q.Status, strings.Join(outbox.Statuses(), ", ")))
	}
	var err error
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
