package migrate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestEmitManyAnswersEachInOrder(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	held, err := emit(t, pool, `'order_created', NULL, gen_random_uuid(), '{}', dedupe_key => 'held'`)
	require.NoError(t, err)
	a, b, c, d := uuid.NewString(), uuid.NewString(), uuid.NewString(), uuid.NewString()
	events := "[" + row(a, "") + "," + row(b, "held") + "," + row(c, "new") + "," + row(d, "new") + "," + row(a, "") + "]"
	got := emitMany(t, pool, events)
	require.Equal(t, []emitted{{a, false}, {held.ID, true}, {c, false}, {c, true}, {a, true}}, got)
	require.Equal(t, int64(3), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_events`))
	require.Equal(t, []emitted{{a, true}, {held.ID, true}, {c, true}, {c, true}, {a, true}}, emitMany(t, pool, events))
	require.Empty(t, emitMany(t, pool, "[]"))

	_, err = pool.Exec(t.Context(), `SELECT outbox_emit_many($1::text::jsonb)`,
		"["+row(uuid.NewString(), "")+`,{"id":"`+uuid.NewString()+`","event_type":"nonsense"}]`)
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "event 2: event_type: unknown event type 'nonsense'", pg.Message)
	require.Equal(t, int64(3), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_events`), "all or none")
	for _, bad := range []string{`{}`, `null`, `1`} {
		_, err = pool.Exec(t.Context(), `SELECT outbox_emit_many($1::text::jsonb)`, bad)
		require.Equal(t, "OX004", state(t, err), bad)
	}
}

// Only what the publisher can read back is an envelope.
func TestEmitManyRefusesOtherEnvelopes(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	id := uuid.NewString()
	for name, payload := range map[string]string{
		"no object":     `[]`,
		"no version":    `{"eventId":"` + id + `","occurredAt":"2026-01-02T03:04:05Z","data":{}}`,
		"version 2":     `{"version":2,"eventId":"` + id + `","occurredAt":"2026-01-02T03:04:05Z","data":{}}`,
		"another id":    `{"version":1,"eventId":"` + uuid.NewString() + `","occurredAt":"2026-01-02T03:04:05Z","data":{}}`,
		"no time":       `{"version":1,"eventId":"` + id + `","data":{}}`,
		"bad time":      `{"version":1,"eventId":"` + id + `","occurredAt":"yesterday","data":{}}`,
		"no digits":     `{"version":1,"eventId":"` + id + `","occurredAt":"2026-01-02T03:04:0x.5Z","data":{}}`,
		"one digit":     `{"version":1,"eventId":"` + id + `","occurredAt":"2026-1-002T03:04:05.5Z","data":{}}`,
		"no fraction":   `{"version":1,"eventId":"` + id + `","occurredAt":"2026-01-02T03:04:05.Z","data":{}}`,
		"two lines":     `{"version":1,"eventId":"` + id + `","occurredAt":"2026-01-02T03:04:05.5Z\n","data":{}}`,
		"unknown field": `{"version":1,"eventId":"` + id + `","occurredAt":"2026-01-02T03:04:05Z","data":{},"more":1}`,
	} {
		event := fmt.Sprintf(`[{"id":%q,"event_type":"order_created","aggregate_id":%q,"payload":%s}]`, id, aggregate, payload)
		_, err := pool.Exec(t.Context(), `SELECT outbox_emit_many($1::text::jsonb)`, event)
		require.Equal(t, "OX004", state(t, err), name)
	}
}

// What is no event, or has a field that its type cannot have, is named before anything is written.
func TestEmitManyNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fine := row(uuid.NewString(), "")
	for member, want := range map[string][]string{
		`1`:                            {"events", "must be an object"},
		`null`:                         {"events", "must be an object"},
		`[{}]`:                         {"events", "must be an object"},
		`{"id": "seven"}`:              {"id", "'seven' cannot be read"},
		`{"tenant_id": {"a": 1}}`:      {"tenant_id", `'{"a": 1}' cannot be read`},
		`{"max_attempts": "x"}`:        {"max_attempts", "'x' cannot be read"},
		`{"max_attempts": 1e10}`:       {"max_attempts", "'10000000000' cannot be read"},
		`{"occurred_at": "soon"}`:      {"occurred_at", "'soon' cannot be read"},
		`{"deliver_at": "2026-13-01"}`: {"deliver_at", "'2026-13-01' cannot be read"},
		`{"deliver_at": "999999-1-1"}`: {"deliver_at", "'999999-1-1' cannot be read"},
		`{"deliver_at": 999999999999}`: {"deliver_at", "'999999999999' cannot be read"},
		`{"event_type": "order_eaten", "id": null, "tenant_id": "` + strings.Repeat("a", 100) + `"}`: {"tenant_id", "'" + strings.Repeat("a", 80) + "' cannot be read"},
	} {
		_, err := pool.Exec(t.Context(), `SELECT outbox_emit_many($1::text::jsonb)`, "["+fine+","+member+"]")
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, member)
		require.Equal(t, []string{"OX004", want[0], "event 2: " + want[0] + ": " + want[1]}, []string{pg.Code, pg.ColumnName, pg.Message}, member)
	}
	require.Equal(t, int64(0), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_events`))
}

// An id is taken in every spelling of a uuid and in no other, so that no error comes from the INSERT with its whole text.
func TestEmitManyTellsAggregateIDs(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	for id, fits := range map[string]bool{
		"018f3f6e-0000-7000-8000-00000000000a":   true,
		"018F3F6E-0000-7000-8000-00000000000A":   true,
		"018f3f6e000070008000-00000000000a":      true,
		"{018f3f6e-0000-7000-8000-00000000000a}": true,
		"018f3f6e-0000-7000-8000-00000000000g":   false,
		"018f3f6e-0000-7000-8000-0000000-000a":   false,
		"------------------------------------":   false,
		"018f3f6e-0000-7000-8000-00000000000a\n": false,
	} {
		_, err := pool.Exec(t.Context(), `SELECT outbox_emit_many(jsonb_build_array(jsonb_build_object('event_type', 'ad_paused', 'aggregate_id', $1::text, 'data', '{}'::jsonb)))`, id)
		if fits {
			require.NoError(t, err, id)
			continue
		}
		require.Equal(t, "22P02", state(t, err), id)
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused)
		require.NotContains(t, refused.Where, "INSERT", id)
	}
}

// Plain objects have the arguments of outbox_emit as their names; ids and envelopes are made for them.
func TestEmitManyTakesPlainObjects(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	plain := func(more string) string {
		return `{"event_type": "order_created", "aggregate_id": "` + aggregate + `"` + more + `}`
	}
	got := emitMany(t, pool, "["+plain(`, "data": {"n": 1}, "dedupe_key": "k", "occurred_at": "2026-01-02 03:04:05+02", "actor": {"userId": "u", "role": null}`)+","+
		plain(`, "data": {"n": 2}`)+","+plain(`, "data": {"n": 3}, "dedupe_key": "k"`)+"]")
	require.Len(t, got, 3)
	require.Equal(t, emitted{got[0].ID, true}, got[2])
	require.False(t, got[0].Already || got[1].Already)
	for _, e := range got[:2] {
		require.Equal(t, uuid.Version(7), uuid.MustParse(e.ID).Version())
		payload := queryOne[json.RawMessage](t, pool, `SELECT payload_json FROM outbox_events WHERE id = $1::text::uuid`, e.ID)
		envelope, err := wire.ParseEnvelope(payload)
		require.NoError(t, err, "the dispatcher must be able to read it")
		require.Equal(t, e.ID, envelope.EventID)
	}
	require.JSONEq(t, `{"version": 1, "eventId": "`+got[0].ID+`", "occurredAt": "2026-01-02T01:04:05.000000Z", "actor": {"userId": "u"}, "data": {"n": 1}}`,
		queryOne[string](t, pool, `SELECT payload_json::text FROM outbox_events WHERE id = $1::text::uuid`, got[0].ID))
	for more, want := range map[string][]string{
		``:                  {"OX003", "data"},
		`, "data": null`:    {"OX003", "data"},
		`, "payload": null`: {"OX003", "data"},
		`, "data": {}, "occurred_at": "0001-01-01 00:00:00+00"`: {"OX004", "occurred_at"},
		`, "data": {}, "actor": {"role": "r"}`:                  {"OX004", "actor"},
		`, "data": {}, "headers": {"event_id": "x"}`:            {"OX004", "headers"},
	} {
		_, err := pool.Exec(t.Context(), `SELECT outbox_emit_many($1::text::jsonb)`, "["+plain(`, "data": {}`)+","+plain(more)+"]")
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, more)
		require.Equal(t, want, []string{pg.Code, pg.ColumnName}, more)
		require.Contains(t, pg.Message, "event 2: "+want[1]+": ")
	}
	record(t, pool, "*", "ad_paused", "ad", "none")
	got = emitMany(t, pool, `[{"event_type": "ad_paused", "aggregate_id": "`+aggregate+`", "data": [1]}]`)
	require.Equal(t, `[1]`, queryOne[string](t, pool, `SELECT payload_json::text FROM outbox_events WHERE id = $1::text::uuid`, got[0].ID))
}

// The ids of a call count on from its moment, so that they sort as the events do.
func TestEmitManyMakesIDsInOrder(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	events := queryOne[string](t, pool, `SELECT jsonb_agg(jsonb_build_object('event_type', 'order_created', 'aggregate_id', gen_random_uuid(), 'data', n))::text
		FROM generate_series(1, 5000) AS n`)
	var last string
	for _, call := range []string{"first", "second"} {
		for _, e := range emitMany(t, pool, events) {
			id, err := uuid.Parse(e.ID)
			require.NoError(t, err)
			require.Equal(t, uuid.Version(7), id.Version(), e.ID)
			require.Equal(t, uuid.RFC4122, id.Variant(), e.ID)
			require.Greater(t, e.ID, last, call)
			last = e.ID
		}
	}
	require.True(t, queryOne[bool](t, pool, `SELECT array_agg(id ORDER BY id) = array_agg(id ORDER BY seq) FROM outbox_events`))
}
