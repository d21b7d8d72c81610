package outbox

import (
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// Field is one filter of a query, under the name that it has as a flag, and in an
// address.
type Field struct {
	Name string
	// Help says which rows it chooses; %s is what happened to them at the times of the query.
	Help string
	// At is where the query keeps it: a *[]string, a *string or a *bool.
	At any
	// Choices are the values it can have; nil: any.
	Choices []string
}

// Fields are the filters of dead letters where the query has a state, and otherwise those of
// events.
func (q *Query) Fields() []Field {
	kind := Field{Name: "type", Help: "filter by event `type`", At: &q.Types}
	both := []Field{
		{Name: "aggregate", At: &q.Aggregate, Help: "filter by aggregate: its id, its type, or `type/id`; /id where a type has the same name"},
		{Name: "tenant", Help: "filter by tenant `id`", At: &q.Tenants},
		{Name: "namespace", Help: "filter by `namespace`", At: &q.Namespaces},
		{Name: "since", At: &q.Since, Help: "only those %s at this `time` or later: 2026-03-01T12:00:00Z, 2026-03-01 (UTC), or how long ago: 2h, 30d"},
		{Name: "until", Help: "only those %s before this `time`", At: &q.Until},
	}
	if q.State == "" {
		return append([]Field{
			{Name: "status", Help: "filter by `status`", At: &q.Status, Choices: append(Statuses(), AllStates)}, kind,
			{Name: "topic", Help: "filter by the `topic` of the event type", At: &q.Topics},
		}, both...)
	}
	return slices.Concat([]Field{
		{Name: "reason", Help: "filter by `reason`: " + strings.Join(DeadReasons(), ", "), At: &q.Reasons}, kind,
		{Name: "topic", Help: "filter by `topic`", At: &q.Topics},
		{Name: "fingerprint", Help: "filter by `fingerprint` (see dlq list --group-by fingerprint)", At: &q.Fingerprints},
	}, both, []Field{
		{Name: "error-like", Help: "filter by `text` in the error, in any case; * matches anything", At: &q.ErrorLike},
		{Name: "blocking", Help: "only those that block later events of their ordering key", At: &q.Blocking},
		{Name: "state", Help: "filter by `state`", At: &q.State, Choices: DeadStates()},
	})
}

// FieldNames are the names of the query's filters.
func (q *Query) FieldNames() (names []string) {
	for _, f := range q.Fields() {
		names = append(names, f.Name)
	}
	return names
}

// Read reads the filters that an address or a document gives. Of one that takes a single value the
// last counts; what is blank is not given.
func (q *Query) Read(given map[string][]string) error {
	for _, f := range q.Fields() {
		values := slices.DeleteFunc(slices.Clone(given[f.Name]), func(s string) bool { return strings.TrimSpace(s) == "" })
		if len(values) == 0 {
			continue
		}
		last := values[len(values)-1]
		switch at := f.At.(type) {
		case *[]string:
			*at = values
		case *string:
			*at = last
		case *bool:
			if *at = last == "true"; !*at && last != "false" {
				return fault.Usagef("%s: %q is neither true nor false", f.Name, last)
			}
		}
	}
	return nil
}
