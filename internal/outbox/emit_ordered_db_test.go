package outbox_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestEmitWritesTheOrderingKey(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	aggregate := uuid.NewString()
	event := func(change func(e *emit.Event)) emit.Event {
		e := emit.Event{
			Type: "license_status_changed", AggregateID: aggregate,
			Data: map[string]any{"licenseId": aggregate, "storeId": uuid.New(), "status": "verified"},
		}
		change(&e)
		return e
	}
	events := []emit.Event{
		event(func(*emit.Event) {}),
		event(func(e *emit.Event) { e.OrderingKey = "cart/42" }),
		event(func(e *emit.Event) { e.OrderingKey, e.Namespace = "cart/42", "shop" }),
		event(func(e *emit.Event) { e.ByAggregate = true }),
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := emit.EmitAll(t.Context(), tx, events)
		return err
	}))
	_, err := db.Pool.Exec(t.Context(), `
SELECT outbox_emit('license_status_changed', NULL, $1, '{}', namespace => 'shop', ordering_key => 'cart/43')`, aggregate)
	require.NoError(t, err)
	rows, err := db.Pool.Query(t.Context(), `SELECT coalesce(ordering_key, '') FROM outbox_events ORDER BY seq`)
	require.NoError(t, err)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		"", "default/cart/42", "shop/cart/42", "default/domain/license/" + aggregate, "shop/cart/43",
	}, keys)
}

// A type with order: aggregate has the same key from every emitter, and however a UUID is spelt.
func TestTheCatalogueOrdersByAggregate(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	id := uuid.NewString()
	cat, err := catalogue.Load(fstest.MapFS{"c.yaml": {Data: []byte(`
outbox: 1
name: licenses
topics: {domain: licenses}
types:
  license_status_changed: {topic: domain, aggregate: license, schema: any, order: aggregate}
  media_uploaded: {topic: domain, aggregate: media, schema: any}
`)}}, "c.yaml")
	require.NoError(t, err)
	event := func(kind, key string) emit.Event {
		return emit.Event{Type: kind, AggregateID: strings.ToUpper(id), Data: map[string]any{"a": 1}, OrderingKey: key}
	}
	emitted := func(e *emit.Emitter, events ...emit.Event) {
		require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			_, err := e.EmitAll(t.Context(), tx, events)
			return err
		}))
	}
	emitted(emit.New(cat), event("license_status_changed", ""), event("license_status_changed", "mine"), event("media_uploaded", ""))
	require.NoError(t, cat.Apply(t.Context(), db.Pool))
	_, err = db.Pool.Exec(t.Context(), `
SELECT outbox_emit('license_status_changed', NULL, $1::text, '{}', namespace => 'shop'),
       outbox_emit('license_status_changed', NULL, upper($1::text), '{}'),
       outbox_emit('license_status_changed', NULL, $1::text, '{}', ordering_key => 'mine'), outbox_emit('media_uploaded', NULL, $1::text, '{}')`, id)
	require.NoError(t, err)
	rows, err := db.Pool.Query(t.Context(), `SELECT coalesce(ordering_key, '') FROM outbox_events ORDER BY seq`)
	require.NoError(t, err)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	byAggregate := "/domain/license/" + id
	require.Equal(t, []string{"default" + byAggregate, "default/mine", "", "shop" + byAggregate, "default" + byAggregate, "default/mine", ""}, keys)
}

func TestEventsAboutNoAggregateHaveNoOrderOfIt(t *testing.T) {
	t.Parallel()
	head := "outbox: 1\nname: chat\ntopics: {usage: usage}\ntypes:\n  usage: {topic: usage, aggregate: none, schema: any"
	load := func(text string) (*catalogue.Catalogue, error) {
		return catalogue.Load(fstest.MapFS{"c.yaml": {Data: []byte(text)}}, "c.yaml")
	}
	_, err := load(head + ", order: aggregate}\n")
	require.ErrorContains(t, err, "order: aggregate needs an aggregate")
	cat, err := load(head + "}\n")
	require.NoError(t, err)
	err = emit.New(cat).Validate(emit.Event{Type: "usage", Data: map[string]any{}, ByAggregate: true})
	require.ErrorContains(t, err, "byAggregate must be left out: usage is about no aggregate")
}

func TestEmitFunctionRefusesABadOrderingKey(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	for _, key := range []string{`''`, `repeat('k', 1024)`} {
		_, err := db.Pool.Exec(t.Context(), `SELECT outbox_emit('license_status_changed', NULL, gen_random_uuid(), '{}', ordering_key => `+key+`)`)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, []string{"OX004", "ordering_key"}, []string{pg.Code, pg.ColumnName})
	}
}
