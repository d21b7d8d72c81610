package outbox

import (
	"fmt"
	"strings"
	"time"
)

// Filter selects events.
type Filter struct {
	Status        string    `json:"status,omitempty"` // empty: all
	Types         []string  `json:"types,omitempty"`
	Namespaces    []string  `json:"namespaces,omitempty"`
	Tenants       []string  `json:"tenants,omitempty"`
	AggregateIDs  []string  `json:"aggregateIds,omitempty"`
	AggregateType string    `json:"aggregateType,omitempty"`
	Since         time.Time `json:"since,omitzero"` // inclusive
	Until         time.Time `json:"until,omitzero"` // exclusive
}

// Narrows reports whether the filter leaves anything out besides a status.
func (f Filter) Narrows() bool {
	return len(f.Types)+len(f.Namespaces)+len(f.Tenants)+len(f.AggregateIDs) > 0 || f.AggregateType != "" ||
		!f.Since.IsZero() || !f.Until.IsZero()
}

// walk is the index a scan follows: its key, and what is true of every row in it.
type walk struct{ key, cast, where string }

func (f Filter) walk() (walk, error) {
	switch {
	case len(f.AggregateIDs) > 0:
		return walk{"seq", "bigint", ""}, nil
	case f.Status == "":
		return walk{"id", "uuid", ""}, nil
	case f.Status == StatusPublished:
		return walk{"published_at", "timestamptz", "published_at IS NOT NULL"}, nil
	case f.Status == StatusDead:
		return walk{"dead_at", "timestamptz", "dead_at IS NOT NULL"}, nil
	case f.Status == StatusPending, f.Status == StatusProcessing:
		return walk{"seq", "bigint", "published_at IS NULL AND dead_at IS NULL"}, nil
	default:
		return walk{}, fmt.Errorf("unknown status %q", f.Status)
	}
}

// compiled is a filter as SQL, in two parts: what the index that is walked can decide, and what has to be looked at row by
// row.
type compiled struct {
	walk
	decided string
	rest    string
	args    []any
}

// compile turns the filter into conditions. Since and Until limit created_at or, with byPublication, published_at.
func (f Filter) compile(byPublication bool) (compiled, error) {
	w, err := f.walk()
	if err != nil {
		return compiled{}, err
	}
	c := compiled{walk: w}
	var decided, rest []string
	if w.where != "" {
		decided = append(decided, w.where)
	}
	switch f.Status {
	case StatusPending:
		rest = append(rest, "coalesce(locked_until <= now(), true)")
	case StatusProcessing:
		rest = append(rest, "coalesce(locked_until > now(), false)")
	case StatusDead:
		rest = append(rest, "published_at IS NULL")
	}
	if len(f.AggregateIDs) > 0 {
		// All types are named so that the index on (type, id) serves without one.
		decided = append(decided, "aggregate_type = ANY (enum_range(NULL::aggregate_type_enum))",
			fmt.Sprintf("aggregate_id = ANY (%s::uuid[])", c.bind(f.AggregateIDs)))
		// Another index is walked than the one that holds only rows of the status.
		switch f.Status {
		case StatusPublished:
			rest = append(rest, "published_at IS NOT NULL")
		case StatusPending, StatusProcessing:
			rest = append(rest, "published_at IS NULL AND dead_at IS NULL")
		case StatusDead:
			rest = append(rest, "dead_at IS NOT NULL")
		}
	}
	for _, field := range []struct {
		column, cast string
		values       []string
	}{
		{"event_type", "event_type_enum", f.Types},
		{"namespace", "text", f.Namespaces},
		{"tenant_id", "uuid", f.Tenants},
	} {
		if len(field.values) > 0 {
			rest = append(rest, fmt.Sprintf("coalesce(%s = ANY (%s::%s[]), false)", field.column, c.bind(field.values), field.cast))
		}
	}
	if f.AggregateType != "" {
		rest = append(rest, fmt.Sprintf("aggregate_type = %s::aggregate_type_enum", c.bind(f.AggregateType)))
	}
	column, into := "created_at", &rest
	if byPublication {
		column, into = "published_at", &decided
	}
	if !f.Since.IsZero() {
		*into = append(*into, fmt.Sprintf("%s >= %s::timestamptz", column, c.bind(f.Since)))
	}
	if !f.Until.IsZero() {
		*into = append(*into, fmt.Sprintf("%s < %s::timestamptz", column, c.bind(f.Until)))
	}
	c.decided, c.rest = strings.Join(decided, " AND "), strings.Join(rest, " AND ")
	return c, nil
}

func (c *compiled) bind(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}
