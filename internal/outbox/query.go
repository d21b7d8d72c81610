package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// AllStates is how one asks for rows in any state.
const AllStates = "all"

// newestNamespaces is what namespaces there are, as far as the newest events tell: no index lists
// them.
const newestNamespaces = `SELECT DISTINCT namespace FROM (SELECT namespace FROM outbox_events ORDER BY id DESC LIMIT 1000) AS newest`

// A FilterName is a value of a filter that may be misspelt: the database finds nothing for it,
// which is not wrong.
type FilterName struct {
	Kind, Value string
}

const kindType, kindTopic, kindNamespace = "event type", "topic", "namespace"

// Names are the names that the query gives.
func (q Query) Names() (names []FilterName) {
	add := func(kind string, values []string) {
		for _, v := range values {
			names = append(names, FilterName{kind, v})
		}
	}
	add(kindType, q.Types)
	add(kindTopic, q.Topics)
	add(kindNamespace, q.Namespaces)
	return names
}

// Misspelt returns a note for each unknown name, with the one that was most likely meant.
func (o *Outbox) Misspelt(ctx context.Context, names []FilterName) ([]string, error) {
	known := map[string][]string{kindType: o.Registry.EventTypes(), kindTopic: o.Registry.TopicNames()}
	if slices.ContainsFunc(names, func(n FilterName) bool { return n.Kind == kindNamespace }) {
		var err error
		if known[kindNamespace], err = Column[string](ctx, o.DB, "read the namespaces", newestNamespaces); err != nil {
			return nil, err
		}
	}
	var notes []string
	for _, n := range names {
		if similar := catalogue.Nearest(n.Value, known[n.Kind]); similar != "" && similar != n.Value {
			notes = append(notes, fmt.Sprintf("no %s %q is known: did you mean %s?", n.Kind, n.Value, similar))
		}
	}
	return notes, nil
}

// DeadStates are the states that dead letters can be asked for in.
func DeadStates() []string { return []string{"open", "replayed", "discarded", AllStates} }

// Query chooses events or dead letters, in the words of a person: those of the flags, and of the
// page's addresses.
type Query struct {
	Types  []string
	Topics []string
	// Aggregate is an id, a type, or type/id.
	Aggregate  string
	Tenants    []string
	Namespaces []string
	// Since and Until are times, dates, or how long ago.
	Since string
	Until string
	// Status is of events: one of Statuses, or all. It is empty where dead letters are chosen.
	Status string
	// State is of dead letters: one of DeadStates. It and the rest are empty where events are chosen.
	State        string
	Reasons      []string
	Fingerprints []string
	ErrorLike    string
	// Blocking: events of the same ordering key wait for it.
	Blocking bool
}

// Filter reads the query and reports everything that is wrong with it. now is the database's clock.
func (q Query) Filter(now time.Time) (Filter, error) {
	out := Filter{
		Types: q.Types, Topics: q.Topics, Namespaces: q.Namespaces, Status: q.Status, State: q.State,
		Reasons: q.Reasons, Fingerprints: q.Fingerprints, ErrorLike: q.ErrorLike, Blocking: q.Blocking,
	}
	var errs [4]error
	if q.State != "" {
		errs[0] = words.OneOf("--state", q.State, DeadStates())
	} else {
		errs[0] = words.OneOf("--status", q.Status, append(Statuses(), AllStates))
	}
	if q.State == AllStates {
		out.State = ""
	}
	if q.Status == AllStates {
		out.Status = ""
	}
	out.AggregateType, out.AggregateIDs, errs[1] = ParseAggregate(q.Aggregate)
	out.Tenants, errs[2] = ParseTenants(q.Tenants)
	out.Since, out.Until, errs[3] = ParseSpan(q.Since, q.Until, now)
	problems := errs[:]
	for _, r := range q.Reasons {
		problems = append(problems, words.OneOf("--reason", r, DeadReasons()))
	}
	if err := errors.Join(problems...); err != nil {
		return Filter{}, fault.As(fault.Usage, err)
	}
	return out, nil
}

// AddTopics adds the event types of a filter's topics. One that the catalogue lacks is a mistake:
// it would choose nothing.
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
