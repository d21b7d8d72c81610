package outbox

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Filter selects events or dead letters. Zero fields select everything; several values of one field
// are alternatives, several fields must all hold.
type Filter struct {
	Types         []string  `json:"types,omitempty"`
	Topics        []string  `json:"topics,omitempty"`
	Namespaces    []string  `json:"namespaces,omitempty"`
	Tenants       []string  `json:"tenants,omitempty"`
	AggregateIDs  []string  `json:"aggregateIds,omitempty"`
	AggregateType string    `json:"aggregateType,omitempty"`
	Since         time.Time `json:"since,omitzero"` // inclusive
	Until         time.Time `json:"until,omitzero"` // exclusive

	// Events have a status; OnTopics are the event types of Topics, which their rows do not tell.
	Status   string `json:"status,omitempty"`
	OnTopics Types  `json:"-"`

	// Dead letters have these. Blocking selects those that events of the same ordering key wait for.
	State        string   `json:"state,omitempty"`
	Reasons      []string `json:"reasons,omitempty"`
	Fingerprints []string `json:"fingerprints,omitempty"`
	ErrorLike    string   `json:"errorLike,omitempty"`
	Blocking     bool     `json:"blocking,omitempty"`
}

// Narrows reports whether the filter leaves anything out besides a status or state: an operator who
// gave no filter has not said what to change.
func (f Filter) Narrows() bool {
	given := func(c Condition) bool { return len(c.Values) > 0 }
	return slices.ContainsFunc(f.Conditions(), given) || f.Blocking || f.ErrorLike != "" || !f.Since.IsZero() || !f.Until.IsZero()
}

// Condition is one field of a filter: a column, and the values it may have.
type Condition struct {
	Column string
	Cast   Cast
	Values []string
}

// Conditions lists the fields in the order in which their indexes are preferred: those that leave
// the fewest rows first.
func (f Filter) Conditions() []Condition {
	var aggregateType []string
	if f.AggregateType != "" {
		aggregateType = []string{f.AggregateType}
	}
	return []Condition{
		{"aggregate_id", AggregateIDCast, f.AggregateIDs},
		{"tenant_id", "uuid", f.Tenants},
		{"fingerprint", "text", f.Fingerprints},
		{"event_type", EventTypeCast, f.Types},
		{"topic", "text", f.Topics},
		{"error_reason", "outbox_dlq_reason", f.Reasons},
		{"namespace", "text", f.Namespaces},
		{"aggregate_type", AggregateTypeCast, aggregateType},
	}
}

// SQL is the condition on rows that are looked at.
func (c Condition) SQL(w *Walk) string {
	if len(c.Values) == 1 {
		return c.Column + " = " + c.Cast.One(w.Bind(c.Values[0]))
	}
	return c.Column + " = ANY (" + c.Cast.List(w.Bind(c.Values)) + ")"
}

// Cast is how a parameter becomes what a column is compared with: the name of a type, or of a
// function of the schema that returns the column's own type, which differs between installations.
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

// openOrPast is true of every event. It says so in the words of the two indexes on aggregates, of
// which each has the one or the other, so that both are used.
const openOrPast = `(published_at IS NULL OR published_at IS NOT NULL)`

// aggregateTypes are the types that events have, each found by a step in the two indexes on
// aggregates. No catalogue could list them: a plain INSERT may have written any text.
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

// A word is an aggregate's type where some event or dead letter has it, and else an id where ids
// can be any text.
const aggregateIsID = `
SELECT $1 <> ALL (` + aggregateTypes + `::text[]) AND NOT EXISTS (SELECT FROM outbox_dlq_counts WHERE aggregate_type::text = $1)
   AND a.atttypid IN ('text'::regtype, 'varchar'::regtype)
  FROM pg_attribute AS a WHERE a.attrelid = 'outbox_events'::regclass AND a.attname = 'aggregate_id'`

// walk is the index that a scan follows: published events by the time of publication, dead ones by
// the time of death, waiting ones by their turn, and all together by id, which is the time of their
// making.
func (f Filter) walk() (Walk, error) {
	w := Walk{Table: "outbox_events", Columns: "id AS event_id, published_at AS at", Cast: "timestamptz"}
	var leased string
	switch f.Status {
	case "":
		w.Key, w.Cast = "id", "uuid"
	case StatusPublished:
		w.Key, w.Decided = "published_at", []string{"published_at IS NOT NULL"}
	case StatusDead:
		w.Key, w.Decided, w.Rest = "dead_at", []string{"dead_at IS NOT NULL"}, []string{"published_at IS NULL"}
	case StatusScheduled:
		w.Key, w.Decided = "deliver_at", []string{"deliver_at > now() AND published_at IS NULL AND dead_at IS NULL"}
	case StatusPending:
		leased = "coalesce(deliver_at <= now(), true) AND NOT "
		fallthrough
	case StatusProcessing:
		w.Key, w.Cast, w.Decided = "seq", "bigint", []string{"published_at IS NULL AND dead_at IS NULL"}
		w.Rest = []string{leased + Leased + " @> seq"}
	default:
		return w, fmt.Errorf("unknown status %q", f.Status)
	}
	if len(f.AggregateIDs) > 0 {
		// Of the indexes on aggregates a part holds the rows of the status, and others. Not by seq: all
		// that was published before the table became an outbox has seq 0.
		w.Key, w.Cast = "created_at", "timestamptz"
		switch f.Status {
		case "":
			w.Decided = []string{openOrPast}
		case StatusPublished:
		case StatusDead:
			w.Decided, w.Rest = []string{"published_at IS NULL"}, []string{"dead_at IS NOT NULL"}
		case StatusScheduled:
			w.Decided, w.Rest = []string{"published_at IS NULL"}, []string{"deliver_at > now() AND dead_at IS NULL"}
		default:
			w.Decided, w.Rest = []string{"published_at IS NULL"}, append(w.Rest, "dead_at IS NULL")
		}
	}
	return w, nil
}

// byChange walks all events by their last change. No index has created_at, which would cost every
// event: the waiting ones are sorted for each window.
func (w *Walk) byChange() {
	w.Key, w.Cast = "coalesce(published_at, dead_at, created_at)", "timestamptz"
	w.Parts = [][2]string{
		{"published_at", "published_at IS NOT NULL"},
		{"dead_at", "dead_at IS NOT NULL AND published_at IS NULL"},
		{"created_at", "published_at IS NULL AND dead_at IS NULL"},
	}
}

// compile turns the filter into conditions on events. Since and Until limit created_at or, with
// byPublication, published_at.
func (f Filter) compile(byPublication bool) (Walk, error) {
	w, err := f.walk()
	if err != nil {
		return w, err
	}
	for _, c := range f.Conditions() {
		switch {
		case len(c.Values) == 0:
		case c.Column == "aggregate_id":
			// All types are named so that the index on (type, id) serves without one.
			w.Decided = append(w.Decided, "aggregate_type = ANY ("+aggregateTypes+")", "aggregate_id = ANY ("+c.Cast.List(w.Bind(c.Values))+")")
		case c.Column == "topic":
			w.Rest = append(w.Rest, Chosen(w.Bind(f.OnTopics.Texts())))
		default:
			w.Rest = append(w.Rest, c.SQL(&w))
		}
	}
	if byPublication {
		w.Decided = append(w.Decided, f.Span(&w, "published_at")...)
	} else {
		w.Rest = append(w.Rest, f.Span(&w, "created_at")...)
	}
	return w, nil
}

// Span are the conditions by which Since and Until limit a column.
func (f Filter) Span(w *Walk, column string) (conditions []string) {
	if !f.Since.IsZero() {
		conditions = append(conditions, column+" >= "+w.Bind(f.Since)+"::timestamptz")
	}
	if !f.Until.IsZero() {
		conditions = append(conditions, column+" < "+w.Bind(f.Until)+"::timestamptz")
	}
	return conditions
}

// ScanEvents starts a scan. Since and Until limit created_at or, with byPublication, published_at.
func (o *Outbox) ScanEvents(f Filter, order Order, byPublication bool) (*Scan[Event], error) {
	w, err := f.compile(byPublication)
	return &Scan[Event]{DB: o.DB, Walk: w, Order: order, Read: o.Events}, err
}
