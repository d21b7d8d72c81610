package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// triedPublished is on how many published events a changed catalogue is tried: compatibility that
// real events show.
const triedPublished = 1000

// Refusal is why events would not be published under a catalogue.
type Refusal struct {
	EventType string `json:"eventType"`
	Reason    string `json:"reason"`
	// Problem is what the first of them was refused for.
	Problem string `json:"problem"`
	// Waiting would die; Published were published and would be refused today.
	Waiting   int64 `json:"waiting"`
	Published int64 `json:"published"`
	// Example is the first of them.
	Example string `json:"example"`
}

// Trial is a catalogue tried on real events.
type Trial struct {
	// Waiting and Published are how many were looked at.
	Waiting   int64     `json:"waiting"`
	Published int64     `json:"published"`
	Refused   []Refusal `json:"refused"`
}

// waits and published select the rows of a trial. Waiting rows are all judged, oldest first by the
// claim index; of the published ones the newest.
const (
	triedColumns = `SELECT id::text, namespace, event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, headers::text, attempt_count
  FROM outbox_events `
	triedWaiting = triedColumns + `WHERE published_at IS NULL AND dead_at IS NULL ORDER BY seq`
	triedPublish = triedColumns + `WHERE published_at IS NOT NULL AND erased_at IS NULL ORDER BY published_at DESC LIMIT $1`

	// Of a table that is not migrated yet only the nine columns that every one has.
	triedForeign = `SELECT id::text, '` + outbox.DefaultNamespace + `', event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, NULL::text, attempt_count
  FROM outbox_events WHERE published_at IS NULL ORDER BY created_at`
)

// Try judges every waiting event as a publisher would once the catalogue is recorded, and with
// published the latest published ones too. Nothing is changed.
func Try(ctx context.Context, db outbox.DB, given *Registry, published bool) (Trial, error) {
	recorded, err := Recorded(ctx, db)
	if err != nil {
		return Trial{}, err
	}
	if err := given.Fits(ctx, db); err != nil {
		return Trial{}, applyError(err)
	}
	waiting := triedWaiting
	var foreign bool
	if err := db.QueryRow(ctx, `SELECT to_regclass('outbox_catalogue') IS NULL`).Scan(&foreign); err != nil {
		return Trial{}, fmt.Errorf("look for the schema: %w", err)
	}
	if foreign {
		waiting = triedForeign
	}
	var t Trial
	refused := refusals{}
	types := recorded.With(given.Catalogue)
	err = refused.judge(ctx, db, types, func(_ *dispatch.Claimed, refusal func() *Refusal) {
		if t.Waiting++; refusal != nil {
			refusal().Waiting++
		}
	}, waiting)
	if err == nil && published {
		err = refused.judge(ctx, db, types, func(_ *dispatch.Claimed, refusal func() *Refusal) {
			if t.Published++; refusal != nil {
				refusal().Published++
			}
		}, triedPublish, triedPublished)
	}
	t.Refused = refused.list()
	return t, err
}

// refusals collects what a publisher would refuse, by event type and reason.
type refusals map[[2]string]*Refusal

// of returns the refusal that a row belongs to, of which the first row is the example.
func (r refusals) of(row *dispatch.Claimed, reason outbox.DeadReason, problem error) *Refusal {
	key := [2]string{row.EventType, string(reason)}
	if r[key] == nil {
		r[key] = &Refusal{EventType: row.EventType, Reason: string(reason), Problem: problem.Error(), Example: row.ID}
	}
	return r[key]
}

// list is the refusals, those of the most waiting events first.
func (r refusals) list() []Refusal {
	list := make([]Refusal, 0, len(r))
	for _, refusal := range r {
		list = append(list, *refusal)
	}
	slices.SortFunc(list, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.EventType, b.EventType), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// judges is a catalogue with the limits of the destination.
type judges interface {
	dispatch.Catalogue
	Limits() wire.Limits
}

// judge judges the rows of a query one by one, so that a backlog of any size fits into memory. each
// is told of every row; refusal, nil for one that would be published, is where those that would not
// be are counted.
func (r refusals) judge(ctx context.Context, db outbox.Querier, types judges, each func(row *dispatch.Claimed, refusal func() *Refusal), query string, args ...any) error {
	var (
		row     dispatch.Claimed
		headers *string
	)
	into := []any{&row.ID, &row.Namespace, &row.EventType, &row.AggregateType, &row.AggregateID, &row.Payload, &headers, &row.AttemptCount}
	limits := types.Limits()
	return outbox.Each(ctx, db, "read events", query, args, into, func() {
		row.Headers, row.Notes = nil, dispatch.Notes{}
		if headers != nil {
			row.Headers = []byte(*headers)
		}
		reason, bad := dispatch.Examine(types, func(string) wire.Limits { return limits }, &row)
		if bad == nil {
			each(&row, nil)
		} else {
			each(&row, func() *Refusal { return r.of(&row, reason, bad) })
		}
	})
}
