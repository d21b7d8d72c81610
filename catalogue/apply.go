package catalogue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrWaiting is why a type is not removed: events of it wait to be published.
var ErrWaiting = errors.New("events of it are waiting")

// ErrOtherCatalogue is why a namespace is not replaced: a catalogue of another name speaks for it.
var ErrOtherCatalogue = errors.New("another catalogue speaks for the namespace")

// ErrChanged is in the error of Record when the database has another revision than the one that was
// looked at.
var ErrChanged = errors.New("the recorded catalogue has changed meanwhile")

// The statements of Record.
const (
	// The row lock keeps two who apply at once apart.
	lockSQL = `SELECT revision FROM outbox_catalogue FOR UPDATE`

	clearSQL = `DELETE FROM outbox_event_types WHERE namespace = $1::text`

	insertSQL = `
INSERT INTO outbox_event_types (namespace, event_type, aggregate_type, topic, envelope, schema, options, digest, applied_at)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text::jsonb, $7::text::jsonb, $8::text, coalesce(nullif($9::text, '')::timestamptz, now()))`

	revisionSQL = `UPDATE outbox_catalogue SET revision = revision + 1, name = $1::text, applied_at = now(), applied_by = $2::text, limits = $3::text::jsonb RETURNING revision`

	auditSQL = `
INSERT INTO outbox_audit (actor, action, note, detail, affected)
VALUES ($1::text, 'registry.apply', nullif($2::text, ''), $3::text::jsonb, $4::bigint) RETURNING id`

	// One row for each type that waits: the planner walks the claim index.
	waitingSQL = `
SELECT namespace, event_type::text, count(*), min(created_at)
  FROM outbox_events
 WHERE published_at IS NULL AND dead_at IS NULL
 GROUP BY 1, 2 ORDER BY 1, 2`

	// What has its place in an ordering key, by the part of the key behind the namespace: that is the
	// topic where the key was made of the aggregate.
	keyedSQL = `
SELECT namespace, event_type::text, split_part(substr(ordering_key, length(namespace) + 2), '/', 1), count(*)
  FROM outbox_events
 WHERE ordering_key IS NOT NULL AND published_at IS NULL AND passed_at IS NULL
 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
)

// Waiting is how many events of a type wait to be published.
type Waiting struct {
	Namespace string
	EventType string
	Events    int64
	Oldest    time.Time
}

// WaitingTypes counts the events that wait, by namespace and type.
func WaitingTypes(ctx context.Context, db DB) ([]Waiting, error) {
	rows, err := db.Query(ctx, waitingSQL)
	if err != nil {
		return nil, fmt.Errorf("count waiting events: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Waiting])
}

// RecordParams is what goes with a catalogue into the database.
type RecordParams struct {
	// Revision, when set, is the one that was looked at: another makes ErrChanged.
	Revision *int64
	// Actor and Note go to the audit row; Detail is its JSON.
	Actor, Note, Detail string
	// Changed is how many types differ from what was recorded.
	Changed int64
}

// RecordResult is what Record did.
type RecordResult struct {
	Revision int64 `json:"revision"`
	AuditID  int64 `json:"auditId"`
}

// Apply records the catalogue in a database, so that SQL emitters refuse by it and publishers may
// judge by it. It adds and changes without asking; a type is not removed while events of it wait,
// nor moved to another topic while some keep the order of their aggregate (ErrWaiting). outboxctl
// registry apply asks.
func (c *Catalogue) Apply(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := c.Record(ctx, pool, RecordParams{Actor: "catalogue.Apply"})
	return err
}

// Record is Apply with the words for the audit row. Everything but new enum values is one
// transaction.
func (c *Catalogue) Record(ctx context.Context, pool *pgxpool.Pool, p RecordParams) (RecordResult, error) {
	columns, err := c.fit(ctx, pool)
	if err != nil {
		return RecordResult{}, err
	}
	if err := c.addEnumValues(ctx, pool, columns); err != nil {
		return RecordResult{}, err
	}
	var result RecordResult
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var revision int64
		if err := tx.QueryRow(ctx, lockSQL).Scan(&revision); err != nil {
			return err
		}
		if p.Revision != nil && *p.Revision != revision {
			return ErrChanged
		}
		former, err := Recorded(ctx, tx)
		if err != nil {
			return err
		}
		if err := c.Replaces(former.Catalogue); err != nil {
			return err
		}
		before := cmp.Or(former.Catalogue, PackFinderz())
		after := before.With(c)
		if err := checkRemoved(ctx, tx, before, after); err != nil {
			return err
		}
		if err := checkMoved(ctx, tx, before, after); err != nil {
			return err
		}
		if err := c.write(ctx, tx, former.Catalogue, p.Actor); err != nil {
			return err
		}
		limits, err := json.Marshal(c.Limits())
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, revisionSQL, c.Name(), p.Actor, string(limits)).Scan(&result.Revision); err != nil {
			return err
		}
		return tx.QueryRow(ctx, auditSQL, p.Actor, p.Note, cmp.Or(p.Detail, "{}"), p.Changed).
			Scan(&result.AuditID)
	})
	if err != nil {
		return RecordResult{}, fmt.Errorf("record the catalogue: %w", err)
	}
	return result, nil
}

// Replaces returns an ErrOtherCatalogue when a namespace of the catalogue belongs to one of another
// name in former, which may be nil.
func (c *Catalogue) Replaces(former *Catalogue) error {
	if former == nil {
		return nil
	}
	for _, d := range c.documents {
		for _, f := range former.documents {
			if d.Namespace == f.Namespace && d.Name != f.Name {
				return fmt.Errorf("%w: namespace %s is recorded for %s, and this one is called %s",
					ErrOtherCatalogue, d.Namespace, f.Name, d.Name)
			}
		}
	}
	return nil
}

// checkRemoved refuses to take away a type that has events waiting.
func checkRemoved(ctx context.Context, tx pgx.Tx, before, after *Catalogue) error {
	waiting, err := WaitingTypes(ctx, tx)
	if err != nil {
		return err
	}
	var stranded []string
	for _, w := range waiting {
		if before.find(w.Namespace, w.EventType) != nil && after.find(w.Namespace, w.EventType) == nil {
			stranded = append(stranded, fmt.Sprintf("%s (%d)", w.EventType, w.Events))
		}
	}
	if len(stranded) > 0 {
		return fmt.Errorf("%w, so it cannot be removed: %s", ErrWaiting, strings.Join(stranded, ", "))
	}
	return nil
}

// checkMoved refuses to move a type to another topic while events of it wait in the order of their
// aggregate. The topic is part of their ordering key, so what is emitted afterwards would not wait
// for them.
func checkMoved(ctx context.Context, tx pgx.Tx, before, after *Catalogue) error {
	rows, err := tx.Query(ctx, keyedSQL)
	if err != nil {
		return err
	}
	var moved []string
	var namespace, eventType, topic string
	var events int64
	_, err = pgx.ForEachRow(rows, []any{&namespace, &eventType, &topic, &events}, func() error {
		then, now := before.find(namespace, eventType), after.find(namespace, eventType)
		if then != nil && now != nil && then.Topic == topic && now.Topic != topic {
			moved = append(moved, fmt.Sprintf("%s from %s to %s (%d)", eventType, topic, now.Topic, events))
		}
		return nil
	})
	if err != nil || len(moved) == 0 {
		return err
	}
	return fmt.Errorf("%w in the order of their aggregate, which a move to another topic would break: %s", ErrWaiting, strings.Join(moved, ", "))
}

// With returns what holds once other is recorded over c: its namespaces replaced, the others kept.
// What is built in is replaced as a whole.
func (c *Catalogue) With(other *Catalogue) *Catalogue {
	after := &Catalogue{types: map[key]*Type{}, limits: other.limits}
	take := func(from *Catalogue, d Document) {
		after.documents = append(after.documents, d)
		for k, t := range from.types {
			if k.namespace == d.Namespace {
				after.types[k] = t
			}
		}
	}
	for _, d := range c.documents {
		if !c.packfinderz && !other.speaksFor(d.Namespace) {
			take(c, d)
		}
	}
	for _, d := range other.documents {
		take(other, d)
	}
	return after
}

// write replaces the types of the catalogue's namespaces. One that is as it was keeps who applied
// it, and when.
func (c *Catalogue) write(ctx context.Context, tx pgx.Tx, former *Catalogue, actor string) error {
	for _, d := range c.documents {
		if _, err := tx.Exec(ctx, clearSQL, d.Namespace); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		for i, t := range d.Types {
			t.appliedBy, t.appliedAt = actor, ""
			if former != nil {
				if f := former.types[key{d.Namespace, t.Name}]; f != nil && f.Name == t.Name &&
					f.Digest() == t.Digest() {
					t.appliedBy, t.appliedAt = f.appliedBy, f.appliedAt
				}
			}
			schema, more, err := t.columns(d, i)
			if err != nil {
				return err
			}
			batch.Queue(insertSQL, d.Namespace, t.Name, t.aggregate(), t.Topic, t.Envelope, schema, more,
				t.Digest(), t.appliedAt)
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
	}
	return nil
}
