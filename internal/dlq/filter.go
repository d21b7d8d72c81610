package dlq

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Filter selects dead letters. Zero fields select everything; several values of
// one field are alternatives, several fields must all hold.
type Filter struct {
	State         string    `json:"state,omitempty"` // open, replayed, discarded; empty: all
	Reasons       []string  `json:"reasons,omitempty"`
	Types         []string  `json:"types,omitempty"`
	Topics        []string  `json:"topics,omitempty"`
	Fingerprints  []string  `json:"fingerprints,omitempty"`
	Namespaces    []string  `json:"namespaces,omitempty"`
	Tenants       []string  `json:"tenants,omitempty"`
	AggregateIDs  []string  `json:"aggregateIds,omitempty"`
	AggregateType string    `json:"aggregateType,omitempty"`
	ErrorLike     string    `json:"errorLike,omitempty"`
	Since         time.Time `json:"since,omitzero"` // inclusive
	Until         time.Time `json:"until,omitzero"` // exclusive
}

// Narrows reports whether the filter leaves anything out besides a state: an
// operator who gave no filter has not said what to change.
func (f Filter) Narrows() bool {
	for _, c := range f.conditions() {
		if len(c.values) > 0 {
			return true
		}
	}
	return f.ErrorLike != "" || !f.Since.IsZero() || !f.Until.IsZero()
}

// condition is one field of a filter: a column, and the values it may have.
type condition struct {
	column string
	cast   string
	values []string
	// openIndex: there is an index on (column, failed_at, id) of the open rows.
	openIndex bool
}

// conditions lists the fields in the order in which their indexes are
// preferred: those that leave the fewest rows first.
func (f Filter) conditions() []condition {
	var aggregateType []string
	if f.AggregateType != "" {
		aggregateType = []string{f.AggregateType}
	}
	return []condition{
		{"aggregate_id", "uuid", f.AggregateIDs, true},
		{"tenant_id", "uuid", f.Tenants, true},
		{"fingerprint", "text", f.Fingerprints, true},
		{"event_type", "event_type_enum", f.Types, true},
		{"topic", "text", f.Topics, true},
		{"error_reason", "outbox_dlq_reason", f.Reasons, true},
		{"namespace", "text", f.Namespaces, true},
		{"aggregate_type", "aggregate_type_enum", aggregateType, false},
	}
}

// compiled is a filter as SQL, in two parts: what the index that is walked can
// decide, and what has to be looked at row by row.
type compiled struct {
	walk string
	rest string
	args []any
}

// compile turns the filter into `column op $n` conditions. The state is
// written out, from a list: PostgreSQL matches a partial index only to a
// constant.
func (f Filter) compile() (compiled, error) {
	var c compiled
	var walk, rest []string
	bind := func(v any) string {
		c.args = append(c.args, v)
		return fmt.Sprintf("$%d", len(c.args))
	}
	switch f.State {
	case "":
	case StateOpen, StateDiscarded, StateReplayed:
		walk = append(walk, "state = '"+f.State+"'")
	default:
		return compiled{}, fmt.Errorf("unknown state %q", f.State)
	}
	indexed := f.State == StateOpen
	for _, cond := range f.conditions() {
		switch {
		case len(cond.values) == 0:
		case len(cond.values) == 1 && cond.openIndex && indexed:
			walk = append(walk, fmt.Sprintf("%s = %s::%s", cond.column, bind(cond.values[0]), cond.cast))
			indexed = false // one index is walked, the others only compared
		case len(cond.values) == 1:
			rest = append(rest, fmt.Sprintf("%s = %s::%s", cond.column, bind(cond.values[0]), cond.cast))
		default:
			rest = append(rest, fmt.Sprintf("%s = ANY (%s::%s[])", cond.column, bind(cond.values), cond.cast))
		}
	}
	if !f.Since.IsZero() {
		walk = append(walk, fmt.Sprintf("failed_at >= %s::timestamptz", bind(f.Since)))
	}
	if !f.Until.IsZero() {
		walk = append(walk, fmt.Sprintf("failed_at < %s::timestamptz", bind(f.Until)))
	}
	if f.ErrorLike != "" {
		rest = append(rest, fmt.Sprintf("error_message ILIKE %s", bind(likePattern(f.ErrorLike))))
	}
	c.walk, c.rest = strings.Join(walk, " AND "), strings.Join(rest, " AND ")
	return c, nil
}

// where is the whole filter as one condition.
func (c compiled) where() string {
	parts := slices.DeleteFunc([]string{c.walk, c.rest}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return "true"
	}
	return strings.Join(parts, " AND ")
}

// likePattern finds text anywhere in a message. What ILIKE would take for a
// wildcard is meant literally; an asterisk stands for anything.
func likePattern(text string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(text)
	return "%" + escaped + "%"
}
