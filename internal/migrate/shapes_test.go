package migrate_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestTypesAreChosenOnce(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{FreshTypes: migrate.TypesText, To: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"text C", "text C", "text C"}, queryAll(t, pool, `
		SELECT format_type(a.atttypid, a.atttypmod) || ' ' || c.collname FROM pg_attribute AS a JOIN pg_collation AS c ON c.oid = a.attcollation
		 WHERE a.attrelid = 'outbox_events'::regclass AND a.attname IN ('event_type', 'aggregate_type', 'aggregate_id')`))
	require.Empty(t, queryAll(t, pool, `SELECT typname FROM pg_type WHERE typname LIKE '%type_enum'`), "unused enums")

	_, err = migrate.Up(t.Context(), pool, migrate.Options{Types: migrate.TypesEnum})
	refusal(t, err, fault.Precondition, "event types are to be enum, but the outbox has them as text",
		"columns keep the type they have: leave the types out, or use a database or a schema of its own")
	require.Equal(t, int64(1), queryOne[int64](t, pool, `SELECT max(version_id) FROM outbox_schema_version`))
	_, err = migrate.Up(t.Context(), pool, migrate.Options{FreshTypes: migrate.TypesEnum})
	require.NoError(t, err, "the outbox is not fresh")
	_, err = migrate.Up(t.Context(), pool, migrate.Options{Types: migrate.TypesText})
	require.NoError(t, err, "what it has may be asked for")
}

// The id of an aggregate may be handed over in whatever type the caller has it.
func TestEmitFunctionTakesIDsOfEveryType(t *testing.T) {
	t.Parallel()
	for _, shape := range outboxtest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.ShapedDB(t, shape).Pool
			for _, tc := range []struct {
				id   string
				want [2]string // what is stored, or the SQLSTATE: where ids are integers, and where they are not
			}{
				{`42`, [2]string{"42", "42"}},
				{`42::smallint`, [2]string{"42", "42"}},
				{`42::bigint`, [2]string{"42", "42"}},
				{`'42'`, [2]string{"42", "42"}},
				{`'42'::varchar`, [2]string{"42", "42"}},
				{`'42'::text`, [2]string{"42", "42"}},
				{`'018F3F6E-0000-7000-8000-00000000000A'::uuid`, [2]string{"22P02", "018f3f6e-0000-7000-8000-00000000000a"}},
				{`'018f3f6e-0000-7000-8000-00000000000a'`, [2]string{"22P02", "018f3f6e-0000-7000-8000-00000000000a"}},
				{`'A/17'`, [2]string{"22P02", "A/17"}},
				{`''`, [2]string{"OX004", "OX004"}},
				{`repeat('x', 256)`, [2]string{"OX004", "OX004"}},
			} {
				want := tc.want[1]
				if shape.Integers() {
					want = tc.want[0]
				} else if shape.Types == migrate.TypesEnum && len(want) < 5 {
					want = "22P02"
				}
				for _, call := range []string{tc.id, `aggregate_id => ` + tc.id} {
					arguments := `'ad_paused', NULL, ` + call + `, '{}'`
					if call != tc.id {
						arguments = `event_type => 'ad_paused', aggregate_type => 'ad', ` + call + `, data => '{}'`
					}
					e, err := emit(t, pool, arguments)
					if err != nil {
						require.Equal(t, want, state(t, err), arguments)
						continue
					}
					require.Equal(t, want, queryOne[string](t, pool, `SELECT aggregate_id::text FROM outbox_events WHERE id = $1`, e.ID), arguments)
				}
			}
		})
	}
}

// Where the columns are text, a type may have any name and be about no aggregate; its ids are compared as they are stored.
func TestEmitFunctionOnTextColumns(t *testing.T) {
	t.Parallel()
	pool := outboxtest.ShapedDB(t, outboxtest.Shapes()[1]).Pool
	record(t, pool, "*", "order.ready", "Order", "standard")
	record(t, pool, "*", "usage/turn:finalized", "", "none")
	e, err := emit(t, pool, `'usage/turn:finalized', NULL, NULL, '[1]', dedupe_key => 'k'`)
	require.NoError(t, err)
	require.Equal(t, "||[1]", queryOne[string](t, pool, `SELECT aggregate_type || '|' || aggregate_id || '|' || payload_json::text FROM outbox_events`))
	again, err := emit(t, pool, `'usage/turn:finalized', '', '', '[1]', dedupe_key => 'k'`)
	require.NoError(t, err)
	require.Equal(t, emitted{e.ID, true}, again)
	again, err = emit(t, pool, `'usage/turn:finalized', '', '', '[1]', dedupe_key => 'k', id => $1::text::uuid`, e.ID)
	require.NoError(t, err)
	require.Equal(t, emitted{e.ID, true}, again)
	for arguments, want := range map[string][]string{
		`'usage/turn:finalized', NULL, '7', '[1]'`:                  {"OX004", "aggregate_id"},
		`'usage/turn:finalized', 'Order', NULL, '[1]'`:              {"OX002", "aggregate_type"},
		`'order.ready', NULL, NULL, '{}'`:                           {"OX004", "aggregate_id"},
		`'order_created', NULL, '7', '{}'`:                          {"OX001", "event_type"},
		`'order.ready', NULL, '7', to_jsonb(repeat('x', 10000000))`: {"OX006", "data"},
	} {
		_, err := emit(t, pool, arguments)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, arguments)
		require.Equal(t, want, []string{pg.Code, pg.ColumnName}, arguments)
	}
	held, err := emit(t, pool, `'order.ready', NULL, '7', '{}'`)
	require.NoError(t, err)
	_, err = emit(t, pool, `'order.ready', NULL, '07', '{}', id => $1::text::uuid`, held.ID)
	require.Equal(t, "OX007", state(t, err))
}
