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
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/internal/migrate"
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
		_, err := packfinderz.EmitAll(t.Context(), tx, events)
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

// An aggregate has one ordering key, whoever emits and however the id is spelt: the one its column prints.
func TestEverySpellingOfAnAggregateIsOneKey(t *testing.T) {
	t.Parallel()
	ordered, err := catalogue.Load(fstest.MapFS{"c.yaml": {Data: []byte(`
outbox: 1
name: licenses
topics: {domain: licenses}
types:
  license_status_changed: {topic: domain, aggregate: license, schema: any, order: aggregate}
`)}}, "c.yaml")
	require.NoError(t, err)
	for _, shape := range outboxtest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.ShapedDB(t, shape).Pool
			id, column := "0192d3a0-aaaa-7bbb-8ccc-0000000000ef", shape.ID
			spellings := []string{id}
			switch {
			case shape.Integers():
				id, spellings = "7", []string{"7", "007", "+7", " 7 "}
			case shape.Types == migrate.TypesEnum:
				column = "uuid"
				spellings = append(spellings, strings.ToUpper(id), "{"+id+"}", strings.ReplaceAll(id, "-", ""))
			case shape.Types == migrate.TypesText:
				column = "text"
			}
			require.NoError(t, ordered.Apply(t.Context(), pool))
			for _, as := range spellings {
				event := emit.Event{Type: "license_status_changed", AggregateID: as, Data: map[string]any{}}
				byAggregate := event
				byAggregate.ByAggregate = true
				require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := emit.New(ordered).EmitAll(t.Context(), tx, []emit.Event{event, byAggregate})
					return err
				}))
				for _, sql := range []string{
					`SELECT outbox_emit('license_status_changed', NULL, $1::text, '{}')`,
					`SELECT outbox_emit_many(jsonb_build_array(jsonb_build_object('id', i, 'event_type', 'license_status_changed', 'aggregate_id', $1::text,
						'payload', jsonb_build_object('version', 1, 'eventId', i, 'occurredAt', '2026-01-01T00:00:00Z', 'data', '{}'::jsonb)))) FROM gen_random_uuid() AS i`,
					// As docs/ordering.md has it.
					`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key)
						SELECT gen_random_uuid(), 'license_status_changed', 'license', a, '{}', 'default/domain/license/' || a
						  FROM (VALUES ($1::text::` + column + `)) AS v(a)`,
				} {
					_, err := pool.Exec(t.Context(), sql, as)
					require.NoError(t, err, as)
				}
			}
			rows, err := pool.Query(t.Context(), `SELECT DISTINCT ordering_key FROM outbox_events`)
			require.NoError(t, err)
			keys, err := pgx.CollectRows(rows, pgx.RowTo[*string])
			require.NoError(t, err)
			key := "default/domain/license/" + id
			require.Equal(t, []*string{&key}, keys)

			var pg *pgconn.PgError
			_, err = pool.Exec(t.Context(), `SELECT outbox_emit('license_status_changed', NULL, '', '{}')`)
			require.ErrorAs(t, err, &pg)
			require.Equal(t, []string{"OX004", "aggregate_id"}, []string{pg.Code, pg.ColumnName}, "an id that is missing is not one that cannot be read")
		})
	}
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
