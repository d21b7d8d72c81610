package outbox_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

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
