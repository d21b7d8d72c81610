package dlq

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
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
	// Blocking selects those that events of the same ordering key wait for.
	Blocking bool `json:"blocking,omitempty"`
}

// Narrows reports whether the filter leaves anything out besides a state: an
// operator who gave no filter has not said what to change.
func (f Filter) Narrows() bool {
	for _, c := range f.conditions() {
		if len(c.values) > 0 {
			return true
		}
	}
	return f.Blocking || f.ErrorLike != "" || !f.Since.IsZero() || !f.Until.IsZero()
}

// condition is one field of a filter: a column, and the values it may have.
type condition struct {
	column string
	cast   outbox.Cast
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
		{"aggregate_id", outbox.AggregateIDCast, f.AggregateIDs, true},
		{"tenant_id", "uuid", f.Tenants, true},
		{"fingerprint", "text", f.Fingerprints, true},
		{"event_type", outbox.EventTypeCast, f.Types, true},
		{"topic", "text", f.Topics, true},
		{"error_reason", "outbox_dlq_reason", f.Reasons, true},
		{"namespace", "text", f.Namespaces, true},
		{"aggregate_type", outbox.AggregateTypeCast, aggregateType, false},
	}
}

// compiled is a filter as SQL, in two parts: what the index that is walked can
// decide, and what has to be looked at row by row.
type compiled struct {
	// state is a condition on the state alone; empty: any.
	state string
	// lead is the first column of the index that is walked, before time and id; empty: it has none.
	lead string
	// leadValue is the SQL of the value it must have.
	leadValue string
	since     time.Time
	until     time.Time
	rest      string
	args      []any
}

// compile turns the filter into conditions `column op value`. The state is
// written out, from a list: PostgreSQL matches a partial index only to a
// constant. At most one condition leads an index; the others are compared.
func (f Filter) compile() (compiled, error) {
	c := compiled{since: f.Since, until: f.Until}
	var rest []string
	switch f.State {
	case "":
	case StateOpen, StateDiscarded: // these have indexes of their own
		c.state = "state = '" + f.State + "'"
	case StateReplayed:
		rest = append(rest, "state = '"+f.State+"'")
	default:
		return compiled{}, fmt.Errorf("unknown state %q", f.State)
	}
	for _, cond := range f.conditions() {
		switch {
		case len(cond.values) == 0:
		case len(cond.values) == 1 && cond.openIndex && f.State == StateOpen && c.lead == "":
			c.lead, c.leadValue = cond.column, cond.cast.One(c.bind(cond.values[0]))
		case len(cond.values) == 1:
			rest = append(rest, cond.column+" = "+cond.cast.One(c.bind(cond.values[0])))
		default:
			rest = append(rest, cond.column+" = ANY ("+cond.cast.List(c.bind(cond.values))+")")
		}
	}
	if f.ErrorLike != "" {
		rest = append(rest, "error_message ILIKE "+c.bind(likePattern(f.ErrorLike)))
	}
	if f.Blocking {
		rest = append(rest, blocksSomething)
	}
	c.rest = strings.Join(rest, " AND ")
	return c, nil
}

func (c *compiled) bind(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

// where is the whole filter as one condition, and its arguments.
func (c compiled) where() (string, []any) {
	c.args = slices.Clone(c.args)
	var parts []string
	if c.state != "" {
		parts = append(parts, c.state)
	}
	if c.lead != "" {
		parts = append(parts, c.lead+" = "+c.leadValue)
	}
	if !c.since.IsZero() {
		parts = append(parts, fmt.Sprintf("failed_at >= %s::timestamptz", c.bind(c.since)))
	}
	if !c.until.IsZero() {
		parts = append(parts, fmt.Sprintf("failed_at < %s::timestamptz", c.bind(c.until)))
	}
	if c.rest != "" {
		parts = append(parts, c.rest)
	}
	if len(parts) == 0 {
		return "true", c.args
	}
	return strings.Join(parts, " AND "), c.args
}

// position is a place in the order of dead letters: a time and an id.
type position struct{ at, id string }

// The ends of the order, and of the ids at one time.
const (
	lowestID  = "00000000-0000-0000-0000-000000000000"
	highestID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

// walk is the part of the filter that one index decides, from one position to
// another, and the order of that index. after is where a page starts; nil: at
// the end the order starts from.
//
// With a leading column it compares whole rows of the index, and does not say
// that the column equals a constant: PostgreSQL would then also consider
// walking all open rows in order of time, which looks cheaper whenever the
// value is common, and takes for ever when it is not to be found among the
// newest.
func (c *compiled) walk(order outbox.Order, after *position) (condition, orderBy string) {
	low, high := position{"-infinity", lowestID}, position{"infinity", highestID}
	if !c.since.IsZero() {
		low.at = instant(c.since)
	}
	if !c.until.IsZero() {
		high = position{instant(c.until), lowestID}
	}
	above, below := ">=", "<"
	if order == outbox.OldestFirst {
		if after != nil {
			low, above = *after, ">"
		}
	} else if after != nil {
		high = *after
	}
	row, value := "failed_at, id", ""
	orderBy = fmt.Sprintf("failed_at %[1]s, id %[1]s", order)
	if c.lead != "" {
		row, value = c.lead+", "+row, c.leadValue+", "
		orderBy = fmt.Sprintf("%s %s, %s", c.lead, order, orderBy)
	}
	bound := func(op string, p position) string {
		return fmt.Sprintf("(%s) %s (%s%s::text::timestamptz, %s::uuid)", row, op, value, c.bind(p.at), c.bind(p.id))
	}
	condition = bound(above, low) + " AND " + bound(below, high)
	if c.lead != "" {
		// Follows from the above, but PostgreSQL wants to read it before it takes an index without NULLs.
		condition = c.lead + " IS NOT NULL AND " + condition
	}
	if c.state != "" {
		condition = c.state + " AND " + condition
	}
	return condition, orderBy
}

// instant is a time as text that every PostgreSQL reads the same way.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// likePattern finds text anywhere in a message. What ILIKE would take for a
// wildcard is meant literally; an asterisk stands for anything.
func likePattern(text string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(text)
	return "%" + escaped + "%"
}
