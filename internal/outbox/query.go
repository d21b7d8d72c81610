package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// AllStates is how one asks for rows in any state.
const AllStates = "all"

// newestNamespaces is what namespaces there are, as far as the newest events tell: no index lists them.
const newestNamespaces = `SELECT DISTINCT namespace FROM (SELECT namespace FROM outbox_events ORDER BY id DESC LIMIT 1000) AS newest`

// A FilterName is a value of a filter that may be misspelt: the database finds nothing for it, which is not wrong.
type FilterName struct {
	Kind, Value string
}

// Names are the names that the query gives.
func (q EventQuery) Names() []FilterName {
	return append(FilterNames(KindType, q.Types), FilterNames(KindNamespace, q.Namespaces)...)
}

const KindType, KindTopic, KindNamespace = "event type", "topic", "namespace"

// FilterNames are the names of a kind.
func FilterNames(kind string, values []string) (names []FilterName) {
	for _, v := range values {
		names = append(names, FilterName{kind, v})
	}
	return names
}

// Misspelt returns a note for each unknown name, with the one that was most likely meant.
func (o *Outbox) Misspelt(ctx context.Context, names []FilterName) ([]string, error) {
	known := map[string][]string{KindType: o.Registry.EventTypes(), KindTopic: o.Registry.TopicNames()}
	if slices.ContainsFunc(names, func(n FilterName) bool { return n.Kind == KindNamespace }) {
		rows, err := o.DB.Query(ctx, newestNamespaces)
		if err != nil {
			return nil, err
		}
		if known[KindNamespace], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return nil, err
		}
	}
	var notes []string
	for _, n := range names {
		if similar := words.Nearest(n.Value, known[n.Kind]); similar != "" && similar != n.Value {
			notes = append(notes, fmt.Sprintf("no %s %q is known: did you mean %s?", n.Kind, n.Value, similar))
		}
	}
	return notes, nil
}

// EventQuery chooses events, in the words of a person.
type EventQuery struct {
	// Status is one of outbox.Statuses, or all.
	Status string
	Types  []string
	Topics []string
	// Aggregate is an id, a type, or type/id.
	Aggregate  string
	Tenants    []string
	Namespaces []string
	// Since and Until are times, dates, or how long ago.
	Since string
	Until string
}

// Filter reads the query and reports everything that is wrong with it. now is the database's clock.
func (q EventQuery) Filter(now time.Time) (Filter, error) {
	out := Filter{Status: q.Status, Types: q.Types, Topics: q.Topics, Namespaces: q.Namespaces}
	var problems []error
	err := words.OneOf("--status", q.Status, append(Statuses(), AllStates))
	if err != nil {
		problems = append(problems, err)
	}
	if q.Status == AllStates {
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
		return Filter{}, fault.As(fault.Usage, errors.Join(problems...))
	}
	return out, nil
}

// AddTopics adds the event types of a filter's topics. One that the catalogue lacks is a mistake: it would choose nothing.
func (o *Outbox) AddTopics(f *Filter) error {
	f.OnTopics = nil
	for _, topic := range f.Topics {
		if err := o.checkTopic(topic); err != nil {
			return err
		}
		f.OnTopics = f.OnTopics.Or(o.Registry.Names().OnTopic(topic))
	}
	return nil
}

// checkTopic refuses a topic that the catalogue lacks.
func (o *Outbox) checkTopic(topic string) error {
	known := o.Registry.TopicNames()
	if slices.Contains(known, topic) {
		return nil
	}
	return words.DidYouMean(fault.Usagef("the catalogue has no %s %q", PauseTopic, topic), topic, known, "outboxctl registry list shows the event types and their topics")
}
