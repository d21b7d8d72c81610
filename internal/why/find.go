package why

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// FoundKind is the kind of thing that an id or key belongs to.
type FoundKind string

// The kinds of things that Find finds.
const (
	FoundPlan       FoundKind = "plan"
	FoundDeadLetter FoundKind = "dead letter"
	FoundEvent      FoundKind = "event"
	FoundAggregate  FoundKind = "aggregate"
	FoundTenant     FoundKind = "tenant"
)

// Found is what an id or key belongs to.
type Found struct {
	Kind FoundKind
	// ID is whole, also where its beginning was given. An aggregate's is as --aggregate takes it.
	ID string
}

// Find returns what has an id, the beginning of one, or a key: a plan, a dead letter, an event, an
// aggregate of some event, a tenant of some dead letter. It only looks whether that exists. Of an
// event with dead letters, the one that matters is found.
func Find(ctx context.Context, o *dlq.Outbox, text string) (Found, error) {
	text = strings.TrimSpace(text)
	id, err := outbox.ParseID(text)
	if err != nil {
		return findWords(ctx, o, text)
	}
	for _, find := range []func() (Found, error){
		func() (Found, error) { return findPlan(ctx, o, id) },
		func() (Found, error) { return findRow(ctx, o, id) },
		func() (Found, error) { return findKey(ctx, o, text) },
		func() (Found, error) { return findAggregate(ctx, o, aggregateOf(id)) },
		func() (Found, error) { return findTenant(ctx, o, id) },
	} {
		found, err := find()
		if kind, _ := fault.KindOf(err); kind != fault.NotFound {
			return found, err
		}
	}
	return Found{}, fault.NotFoundf("nothing here has the id %s: no event, dead letter, run, aggregate, dedupe key, or tenant of a dead letter", id)
}

// findWords is for text that is no UUID, which keys, the broker's ids and aggregates have.
func findWords(ctx context.Context, o *dlq.Outbox, text string) (Found, error) {
	found, noKey := findKey(ctx, o, text)
	if kind, _ := fault.KindOf(noKey); kind != fault.NotFound {
		return found, noKey
	}
	found, err := findAggregate(ctx, o, text)
	if kind, _ := fault.KindOf(err); kind == fault.NotFound {
		return Found{}, noKey
	}
	return found, err
}

func findPlan(ctx context.Context, o *dlq.Outbox, id string) (Found, error) {
	plan, err := o.FindPlan(ctx, id)
	return Found{FoundPlan, plan.ID}, err
}

// findRow finds a dead letter by its own id or its event's, and else an event.
func findRow(ctx context.Context, o *dlq.Outbox, id string) (Found, error) {
	id, err := o.Complete(ctx, id)
	if err != nil {
		return Found{}, err
	}
	targets, err := o.Resolve(ctx, []string{id}, dlq.StateOpen)
	if err != nil {
		return Found{}, err
	}
	if targets[0].ID != "" {
		return Found{FoundDeadLetter, targets[0].ID}, nil
	}
	event, err := o.Event(ctx, id)
	if err != nil {
		return Found{}, err
	}
	if event == nil {
		return Found{}, fault.NotFoundf("no event and no dead letter %s", id)
	}
	return Found{FoundEvent, event.ID}, nil
}

func findKey(ctx context.Context, o *dlq.Outbox, key string) (Found, error) {
	id, err := o.EventOfKey(ctx, key)
	return Found{FoundEvent, id}, err
}

// aggregateOf is an id as --aggregate takes it.
func aggregateOf(id string) string {
	if outbox.IDLike.MatchString(id) {
		return id
	}
	return "/" + id
}

// findAggregate finds an aggregate, as --aggregate takes it, of which there is an event.
func findAggregate(ctx context.Context, o *dlq.Outbox, aggregate string) (Found, error) {
	none := fault.NotFoundf("no event has the aggregate %s", aggregate)
	aggregateType, ids, err := outbox.ParseAggregate(aggregate)
	if err != nil {
		return Found{}, none
	}
	some := false
	// A value that the column cannot have ends the transaction it is asked in, which may be the
	// caller's.
	err = pgx.BeginTxFunc(ctx, o.DB, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		inside := o.Within(tx)
		f := outbox.Filter{AggregateType: aggregateType, AggregateIDs: ids}
		if err := inside.SettleAggregate(ctx, &f); err != nil {
			return err
		}
		scan, err := inside.ScanEvents(f, outbox.NewestFirst, false)
		if err != nil {
			return err
		}
		rows, err := scan.List(ctx, 1)
		some = len(rows) > 0
		return err
	})
	pg, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case refused && pgerrcode.IsDataException(pg.Code), err == nil && !some:
		return Found{}, none
	case err != nil:
		return Found{}, err
	}
	return Found{FoundAggregate, aggregate}, nil
}

// findTenant finds a tenant of which there is a dead letter. Tenants have whole UUIDs.
func findTenant(ctx context.Context, o *dlq.Outbox, id string) (Found, error) {
	none := fault.NotFoundf("no dead letter has the tenant %s", id)
	if len(id) != outbox.IDLength {
		return Found{}, none
	}
	scan, err := o.ScanDeadLetters(dlq.Filter{Tenants: []string{id}}, outbox.NewestFirst)
	if err != nil {
		return Found{}, err
	}
	rows, err := scan.List(ctx, 1)
	if err == nil && len(rows) == 0 {
		err = none
	}
	return Found{FoundTenant, id}, err
}
