package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Filter selects events.
type Filter struct {
	Status        string    `json:"status,omitempty"` // empty: all
	Types         []string  `json:"types,omitempty"`
	Topics        []string  `json:"topics,omitempty"`
	Namespaces    []string  `json:"namespaces,omitempty"`
	Tenants       []string  `json:"tenants,omitempty"`
	AggregateIDs  []string  `json:"aggregateIds,omitempty"`
	AggregateType string    `json:"aggregateType,omitempty"`
	Since         time.Time `json:"since,omitzero"` // inclusive
	Until         time.Time `json:"until,omitzero"` // exclusive
	// OnTopics are the event types of Topics, which a row does not tell.
	OnTopics Types `json:"-"`
}

// Narrows reports whether the filter leaves anything out besides a status.
func (f Filter) Narrows() bool {
	return len(f.Types)+len(f.Topics)+len(f.Namespaces)+len(f.Tenants)+len(f.AggregateIDs) > 0 || f.AggregateType != "" ||
		!f.Since.IsZero() || !f.Until.IsZero()
}

// Cast is how a parameter becomes what a column is compared with: the name of a type, or of a function of the schema that
// returns the column's own type, which differs between installations.
type Cast string

// The casts of those columns.
const (
	EventTypeCast     Cast = "outbox_event_type()"
	AggregateTypeCast Cast = "outbox_aggregate_type()"
	AggregateIDCast   Cast = "outbox_aggregate_id()"
)

// One is the SQL of one value; param is its parameter, such as $1.
func (c Cast) One(param string) string { return c.of(param, "") }

// List is the SQL of a list of values.
func (c Cast) List(param string) string { return c.of(param, "[]") }

func (c Cast) of(param, list string) string {
	if function, ok := strings.CutSuffix(string(c), "()"); ok {
		return function + "(" + param + "::text" + list + ")"
	}
	return param + "::" + string(c) + list
}

// openOrPast is true of every event. It says so in the words of the two indexes on aggregates, of which each has the one
// or the other, so that both are used.
const openOrPast = `(published_at IS NULL OR published_at IS NOT NULL)`

// aggregateTypes are the types that events have, each found by a step in the two indexes on aggregates. No catalogue could
// list them: a plain INSERT may have written any text.
const aggregateTypes = `ARRAY(
WITH RECURSIVE kinds(kind) AS (
    SELECT least((SELECT aggregate_type FROM outbox_events WHERE published_at IS NULL ORDER BY aggregate_type LIMIT 1),
                 (SELECT aggregate_type FROM outbox_events WHERE published_at IS NOT NULL ORDER BY aggregate_type LIMIT 1))
    UNION ALL
    SELECT least((SELECT e.aggregate_type FROM outbox_events AS e
                   WHERE e.published_at IS NULL AND e.aggregate_type > k.kind ORDER BY e.aggregate_type LIMIT 1),
                 (SELECT e.aggregate_type FROM outbox_events AS e
                   WHERE e.published_at IS NOT NULL AND e.aggregate_type > k.kind ORDER BY e.aggregate_type LIMIT 1))
      FROM kinds AS k WHERE k.kind IS NOT NULL
) SELECT kind FROM kinds WHERE kind IS NOT NULL)`

// A word is an aggregate's type where some event or dead letter has it, and else an id where ids can be any text.
const aggregateIsID = `
SELECT $1 <> ALL (` + aggregateTypes + `::text[]) AND NOT EXISTS (SELECT FROM outbox_dlq_counts WHERE aggregate_type::text = $1)
   AND a.atttypid IN ('text'::regtype, 'varchar'::regtype)
  FROM pg_attribute AS a WHERE a.attrelid = 'outbox_events'::regclass AND a.attname = 'aggregate_id'`

// AggregateIsID reports whether a word that could be an aggregate's type or an id can only be an id.
func (s *Store) AggregateIsID(ctx context.Context, word string) (is bool, err error) {
	if err := s.db.QueryRow(ctx, aggregateIsID, word).Scan(&is); err != nil {
		return false, fmt.Errorf("look for an aggregate: %w", err)
	}
	return is, nil
}

// walk is the index a scan follows: its key, and what is true of every row in it.
type walk struct{ key, cast, where string }

func (f Filter) walk() (walk, error) {
	switch {
	case len(f.AggregateIDs) > 0:
		// Not seq: all that was published before the table became an outbox has seq 0.
		return walk{"created_at", "timestamptz", ""}, nil
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
		rest = append(rest, "NOT "+Leased+" @> seq")
	case StatusProcessing:
		rest = append(rest, Leased+" @> seq")
	case StatusDead:
		rest = append(rest, "published_at IS NULL")
	}
	if len(f.AggregateIDs) > 0 {
		// All types are named so that the index on (type, id) serves without one.
		decided = append(decided, "aggregate_type = ANY ("+aggregateTypes+")",
			fmt.Sprintf("aggregate_id = ANY (%s)", AggregateIDCast.List(c.bind(f.AggregateIDs))))
		// Of the index on aggregates a part holds the rows of the status, and others.
		switch f.Status {
		case StatusPublished:
			decided = append(decided, "published_at IS NOT NULL")
		case StatusPending, StatusProcessing:
			decided, rest = append(decided, "published_at IS NULL"), append(rest, "dead_at IS NULL")
		case StatusDead:
			decided, rest = append(decided, "published_at IS NULL"), append(rest, "dead_at IS NOT NULL")
		default:
			decided = append(decided, openOrPast)
		}
	}
	for _, field := range []struct {
		column string
		cast   Cast
		values []string
	}{
		{"event_type", EventTypeCast, f.Types},
		{"namespace", "text", f.Namespaces},
		{"tenant_id", "uuid", f.Tenants},
	} {
		if len(field.values) > 0 {
			rest = append(rest, fmt.Sprintf("coalesce(%s = ANY (%s), false)", field.column, field.cast.List(c.bind(field.values))))
		}
	}
	if len(f.Topics) > 0 {
		rest = append(rest, Chosen(c.bind(f.OnTopics.Texts())))
	}
	if f.AggregateType != "" {
		rest = append(rest, "aggregate_type = "+AggregateTypeCast.One(c.bind(f.AggregateType)))
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
