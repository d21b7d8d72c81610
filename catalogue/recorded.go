package catalogue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// DB is a pool, a connection or a transaction of pgx.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Recording is what a database says about its catalogue.
type Recording struct {
	// Revision counts how often something was recorded.
	Revision  int64
	Name      string
	AppliedAt time.Time
	AppliedBy string
	// Catalogue is nil when nothing was recorded: then the event types are the built-in ones.
	Catalogue *Catalogue
}

// recordedSQL reads revision and types in one statement, so that they belong together. Texts,
// because every exec mode of pgx reads them alike.
const recordedSQL = `
SELECT c.revision, c.name, c.applied_at, c.applied_by, c.limits::text, t.namespace, t.event_type, t.aggregate_type, t.topic, t.envelope,
       coalesce(t.schema::text, ''), t.options::text, t.digest, to_char(t.applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
  FROM outbox_catalogue AS c
  LEFT JOIN outbox_event_types AS t ON true
 ORDER BY t.namespace <> '*', t.namespace, (t.options ->> 'position')::int, t.event_type`

// options is what the column options holds: everything that no other column says.
type options struct {
	Type

	Catalogue   string `json:"catalogue"`
	Position    int    `json:"position"`
	Name        string `json:"topicName"`
	Description string `json:"description,omitempty"`
	AppliedBy   string `json:"appliedBy,omitempty"`
	// These hide the fields of Type that have columns of their own.
	Topic     struct{} `json:"topic,omitzero"`
	Aggregate struct{} `json:"aggregate,omitzero"`
	Schema    struct{} `json:"schema,omitzero"`
	Envelope  struct{} `json:"envelope,omitzero"`
}

// Recorded reads the catalogue that a database recorded. Its schemas are compiled when they are
// first needed.
func Recorded(ctx context.Context, db DB) (Recording, error) {
	r, err := recorded(ctx, db)
	if err != nil {
		return Recording{}, fmt.Errorf("read the recorded catalogue: %w", err)
	}
	return r, nil
}

func recorded(ctx context.Context, db DB) (r Recording, err error) {
	rows, err := db.Query(ctx, recordedSQL)
	if err != nil {
		return r, err
	}
	var limits string
	var namespace, name, aggregate, topic, envelope, schema, more, digest, applied *string
	into := []any{&r.Revision, &r.Name, &r.AppliedAt, &r.AppliedBy, &limits, &namespace, &name,
		&aggregate, &topic, &envelope, &schema, &more, &digest, &applied}
	_, err = pgx.ForEachRow(rows, into, func() error {
		if namespace == nil {
			return nil
		}
		var o options
		if err := json.Unmarshal([]byte(*more), &o); err != nil {
			return fmt.Errorf("options of %s: %w", *name, err)
		}
		t := &o.Type
		t.Name, t.Description, t.Topic, t.Aggregate = *name, o.Description, *topic, *aggregate
		t.Schema, t.Envelope = Schema(*schema), *envelope
		t.digest, t.appliedBy, t.appliedAt = *digest, o.AppliedBy, *applied
		if err := t.fromColumns(); err != nil {
			return fmt.Errorf("schema of %s: %w", *name, err)
		}
		if r.Catalogue == nil {
			r.Catalogue = &Catalogue{types: map[key]*Type{}}
			if err := json.Unmarshal([]byte(limits), &r.Catalogue.limits); err != nil {
				return fmt.Errorf("limits: %w", err)
			}
		}
		r.Catalogue.record(*namespace, o, t)
		return nil
	})
	return r, err
}

// fromColumns undoes what columns does.
func (t *Type) fromColumns() error {
	t.Aggregate = cmp.Or(t.Aggregate, None)
	t.ExtraFields, t.Check = cmp.Or(t.ExtraFields, Warn), cmp.Or(t.Check, CheckPublish)
	t.Order = cmp.Or(t.Order, None)
	if t.Schema == "" {
		t.Schema = Any
	} else {
		document, err := decode(string(t.Schema))
		if err != nil {
			return err
		}
		text, err := canonical(document)
		if err != nil {
			return err
		}
		if t.Schema = Schema(text); t.Schema == anyObject {
			t.Schema = Object
		}
	}
	schema := t.Schema
	t.check = sync.OnceValues(func() (*checker, error) {
		c, _, _, err := compile(schema, "", nil)
		if err != nil {
			return nil, fmt.Errorf("the recorded schema of %s cannot be used by this program: %w",
				cut(t.Name), err)
		}
		return c, nil
	})
	return nil
}

// record adds a type that was read from the database.
func (c *Catalogue) record(namespace string, o options, t *Type) {
	i := slices.IndexFunc(c.documents, func(d Document) bool { return d.Namespace == namespace })
	if i < 0 {
		i = len(c.documents)
		c.documents = append(c.documents, Document{Name: o.Catalogue, Namespace: namespace,
			Topics: map[string]string{}})
	}
	c.documents[i].Types = append(c.documents[i].Types, *t)
	c.documents[i].Topics[t.Topic] = cmp.Or(o.Name, t.Topic)
	for _, name := range append([]string{t.Name}, t.Was...) {
		c.types[key{namespace, name}] = t
	}
}

// columns is a type as the table has it.
func (t Type) columns(d Document, position int) (schema *string, more string, err error) {
	if t.Schema != Any {
		text := string(t.Schema.JSON())
		schema = &text
	}
	encoded, err := json.Marshal(options{
		Type: t, Catalogue: d.Name, Position: position, Name: d.Topics[t.Topic],
		Description: t.Description, AppliedBy: t.appliedBy,
	})
	return schema, string(encoded), err
}
