package migrate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

const aggregate = "0192d3a0-0000-7000-8000-00000000000a"

type emitted struct {
	ID      string
	Already bool
}

func emit(t *testing.T, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, arguments string, args ...any) (emitted, error) {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT id::text, already_enqueued FROM outbox_emit("+arguments+")", args...)
	require.NoError(t, err)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[emitted])
}

func TestEmitFunctionBuildsTheEnvelope(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	e, err := emit(t, pool, `'license_status_changed', NULL, $1::text::uuid, '{"licenseId": 1}', dedupe_key => 'k', namespace => 'shop',
		headers => '{"traceparent": "00-x"}', occurred_at => '2026-01-02 03:04:05.000678+02', actor => '{"userId": "u", "role": "admin"}',
		max_attempts => 3`, aggregate)
	require.NoError(t, err)
	require.False(t, e.Already)
	require.Equal(t, uuid.Version(7), uuid.MustParse(e.ID).Version())

	store := &outbox.Outbox{DB: pool}
	row, err := store.Event(t.Context(), e.ID)
	require.NoError(t, err)
	content, err := store.EventContent(t.Context(), e.ID)
	require.NoError(t, err)
	require.JSONEq(t, `{"version": 1, "eventId": "`+e.ID+`", "occurredAt": "2026-01-02T01:04:05.000678Z",
		"actor": {"userId": "u", "role": "admin"}, "data": {"licenseId": 1}}`, string(content.Payload))
	envelope, err := wire.ParseEnvelope(content.Payload)
	require.NoError(t, err, "the dispatcher must be able to read it")
	require.Equal(t, e.ID, envelope.EventID)
	require.JSONEq(t, `{"traceparent": "00-x"}`, string(content.Headers))
	require.Equal(t, &outbox.Event{
		ID: e.ID, Seq: row.Seq, EventType: "license_status_changed", AggregateType: "license", AggregateID: aggregate, Status: outbox.StatusPending,
		Namespace: "shop", DedupeKey: ptr("k"), MaxAttempts: ptr(3), CreatedAt: row.CreatedAt, NextAttemptAt: row.NextAttemptAt,
	}, row)
}

func TestEmitFunctionRefuses(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	const ok = `'order_created', NULL, gen_random_uuid(), '{}'`
	// The function has the broker's limits as figures. They are the ones that Go checks.
	limits := wire.PubSubLimits()
	header := func(name, value int) string {
		return fmt.Sprintf(`, headers => jsonb_build_object(repeat('x', %d), repeat('x', %d))`, name, value)
	}
	headers := func(n int) string {
		return fmt.Sprintf(`, headers => (SELECT jsonb_object_agg('h' || n, repeat('x', %d)) FROM generate_series(1, %d) AS n)`, limits.AttributeValueBytes, n)
	}
	most := limits.Attributes - wire.StandardAttributes
	for name, tc := range map[string]struct{ arguments, state, field string }{
		"unknown type":         {`'order_eaten', NULL, gen_random_uuid(), '{}'`, "OX001", "event_type"},
		"no type":              {`NULL, NULL, gen_random_uuid(), '{}'`, "OX001", "event_type"},
		"wrong aggregate":      {`'order_created', 'ad', gen_random_uuid(), '{}'`, "OX002", "aggregate_type"},
		"nonsense aggregate":   {`'order_created', 'nonsense', gen_random_uuid(), '{}'`, "OX002", "aggregate_type"},
		"SQL null data":        {`'order_created', NULL, gen_random_uuid(), NULL`, "OX003", "data"},
		"JSON null data":       {`'order_created', NULL, gen_random_uuid(), 'null'`, "OX003", "data"},
		"no aggregate id":      {`'order_created', NULL, NULL, '{}'`, "OX004", "aggregate_id"},
		"nil aggregate id":     {`'order_created', NULL, '00000000-0000-0000-0000-000000000000', '{}'`, "OX004", "aggregate_id"},
		"headers no object":    {ok + `, headers => '["a"]'`, "OX004", "headers"},
		"header no string":     {ok + `, headers => '{"a": 1}'`, "OX004", "headers"},
		"header is ours":       {ok + `, headers => '{"event_id": "x"}'`, "OX004", "headers"},
		"header is like ours":  {ok + `, headers => '{"Tenant_ID": "x"}'`, "OX004", "headers"},
		"header is the broker": {ok + `, headers => '{"` + strings.ToUpper(limits.ReservedPrefix) + `client": "x"}'`, "OX004", "headers"},
		"header without name":  {ok + `, headers => '{"": "x"}'`, "OX004", "headers"},
		"empty namespace":      {ok + `, namespace => ''`, "OX004", "namespace"},
		"long namespace":       {ok + `, namespace => repeat('x', 256)`, "OX004", "namespace"},
		"empty key":            {ok + `, dedupe_key => ''`, "OX004", "dedupe_key"},
		"long key":             {ok + `, dedupe_key => repeat('x', 1025)`, "OX004", "dedupe_key"},
		"no attempts":          {ok + `, max_attempts => 0`, "OX004", "max_attempts"},
		"delivered never":      {ok + `, deliver_at => 'infinity'`, "OX004", "deliver_at"},
		"delivered very late":  {ok + `, deliver_at => '10000-01-01 00:00:00+00'`, "OX004", "deliver_at"},
		"before year 1":        {ok + `, occurred_at => '0044-03-15 00:00:00+00 BC'`, "OX004", "occurred_at"},
		"year 0":               {ok + `, occurred_at => '0001-12-31 23:59:59+00 BC'`, "OX004", "occurred_at"},
		"the zero time":        {ok + `, occurred_at => '0001-01-01 00:00:00+00'`, "OX004", "occurred_at"},
		"year 10000":           {ok + `, occurred_at => '10000-01-01 00:00:00+00'`, "OX004", "occurred_at"},
		"infinity":             {ok + `, occurred_at => 'infinity'`, "OX004", "occurred_at"},
		"minus infinity":       {ok + `, occurred_at => '-infinity'`, "OX004", "occurred_at"},
		"actor without user":   {ok + `, actor => '{"role": "x"}'`, "OX004", "actor"},
		"actor with more":      {ok + `, actor => '{"userId": "x", "shoe": 43}'`, "OX004", "actor"},
		"actor with null more": {ok + `, actor => '{"userId": "x", "shoe": null}'`, "OX004", "actor"},
		"actor of null user":   {ok + `, actor => '{"userId": null}'`, "OX004", "actor"},
		"actor no object":      {ok + `, actor => '"u"'`, "OX004", "actor"},
		"actor no string":      {ok + `, actor => '{"userId": "u", "role": 1}'`, "OX004", "actor"},
		"long user":            {ok + `, actor => jsonb_build_object('userId', repeat('x', 1025))`, "OX004", "actor"},
		"long store":           {ok + `, actor => jsonb_build_object('userId', 'u', 'storeId', repeat('x', 1025))`, "OX004", "actor"},
		"long role":            {ok + `, actor => jsonb_build_object('userId', 'u', 'role', repeat('é', 513))`, "OX004", "actor"},
		"key without tenant":   {ok + `, tenant_id => gen_random_uuid(), dedupe_key => 'k'`, "OX005", "dedupe_key"},
		"long header name":     {ok + header(limits.AttributeNameBytes+1, 1), "OX006", "headers"},
		"long header value":    {ok + header(1, limits.AttributeValueBytes+1), "OX006", "headers"},
		"many headers":         {ok + headers(most+1), "OX006", "headers"},
		"headers and a place":  {ok + headers(most) + `, ordering_key => 'k'`, "OX006", "headers"},
		"too large":            {`'order_created', NULL, gen_random_uuid(), to_jsonb(repeat('x', 10000000))`, "OX006", "data"},
	} {
		_, err := emit(t, pool, tc.arguments)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, name)
		require.Equal(t, []string{tc.state, tc.field}, []string{pg.Code, pg.ColumnName}, name)
		require.Contains(t, pg.Message, tc.field+": ", name)
	}
	require.Equal(t, int64(0), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_events`))
	for name, arguments := range map[string]string{
		"most headers":  ok + headers(most),
		"longest name":  ok + header(limits.AttributeNameBytes, 0),
		"longest key":   ok + `, namespace => repeat('n', 255), dedupe_key => repeat('x', 1024)`,
		"longest actor": ok + `, actor => jsonb_build_object('userId', repeat('x', 1024), 'storeId', repeat('x', 1024), 'role', repeat('é', 512))`,
		"first moment":  ok + `, occurred_at => '0001-01-01 00:00:00.000001+00'`,
		"last moment":   ok + `, occurred_at => '9999-12-31 23:59:59.999999+00'`,
		"any data":      `'order_created', 'checkout_group', gen_random_uuid(), '[1, "two"]'`,
	} {
		_, err := emit(t, pool, arguments)
		require.NoError(t, err, name)
	}
}

// A null is an absent value, and is stored as the Go package would store it.
func TestEmitFunctionTakesNullForAbsent(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	for actor, want := range map[string]string{
		`null`:                             ``,
		`{"userId": "u", "storeId": null}`: `{"userId": "u"}`,
		`{"userId": "u", "storeId": null, "role": null}`:  `{"userId": "u"}`,
		`{"userId": "u", "storeId": "null", "role": "r"}`: `{"role": "r", "userId": "u", "storeId": "null"}`,
	} {
		e, err := emit(t, pool, `'order_created', NULL, gen_random_uuid(), '{}', actor => $1::text::jsonb`, actor)
		require.NoError(t, err, actor)
		require.Equal(t, want, queryOne[string](t, pool, `SELECT coalesce(payload_json ->> 'actor', '') FROM outbox_events WHERE id = $1::text::uuid`, e.ID))
	}
	// A finished envelope is stored as it is.
	for _, actor := range []string{`null`, `{"role": null, "userId": "u"}`} {
		id := uuid.NewString()
		emitMany(t, pool, fmt.Sprintf(`[{"id":%q,"event_type":"order_created","aggregate_id":%q,
			"payload":{"version":1,"eventId":%q,"occurredAt":"2026-01-02T03:04:05Z","actor":%s,"data":{}}}]`, id, aggregate, id, actor))
		payload := queryOne[json.RawMessage](t, pool, `SELECT payload_json FROM outbox_events WHERE id = $1::text::uuid`, id)
		require.Contains(t, string(payload), `"actor": `+actor)
		_, err := wire.ParseEnvelope(payload)
		require.NoError(t, err, "the dispatcher must be able to read it")
	}
}

// At the limit and one byte beyond, SQL and Go must say the same.
func TestEmitFunctionWeighsLikeTheGoPackage(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	const arguments = `'ad_daily_rollup_ready', NULL, $1::text::uuid, to_jsonb(repeat('x', $2)), occurred_at => '2026-01-02',
		headers => '{"traceparent": "00-x"}', ordering_key => 'k'`
	small, err := emit(t, pool, arguments, aggregate, 1)
	require.NoError(t, err)
	body := queryOne[int](t, pool, `SELECT octet_length(payload_json::text) - 1 FROM outbox_events`)
	longest := time.Date(2026, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	attrs := wire.Attributes(wire.Row{ID: small.ID, EventType: "ad_daily_rollup_ready", AggregateType: "ad", AggregateID: aggregate, Namespace: "default", CreatedAt: longest, Headers: map[string]string{"traceparent": "00-x"}, Seq: math.MaxInt64})
	most := wire.PubSubLimits().MessageBytes - len("default/k")
	n := most - body
	for wire.MessageBytes(body+n, attrs) > most {
		n--
	}
	require.Equal(t, most, wire.MessageBytes(body+n, attrs))

	_, err = emit(t, pool, arguments, aggregate, n)
	require.NoError(t, err)
	_, err = emit(t, pool, arguments, aggregate, n+1)
	require.Equal(t, "OX006", state(t, err))
}

func TestDedupe(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	const arguments = `'order_created', NULL, gen_random_uuid(), '{}', dedupe_key => 'k'`
	first, err := emit(t, pool, arguments)
	require.NoError(t, err)
	again, err := emit(t, pool, arguments)
	require.NoError(t, err)
	require.Equal(t, emitted{first.ID, true}, again)
	for name, other := range map[string]string{
		"namespace": arguments + `, namespace => 'other'`,
		"type":      `'media_uploaded', NULL, gen_random_uuid(), '{}', dedupe_key => 'k'`,
		"no key":    `'order_created', NULL, gen_random_uuid(), '{}'`,
	} {
		e, err := emit(t, pool, other)
		require.NoError(t, err)
		require.False(t, e.Already, name)
	}
	same, err := emit(t, pool, `'order_created', NULL, $1::text::uuid, '{}', id => $2::text::uuid`, aggregate, uuid.NewString())
	require.NoError(t, err)
	repeated, err := emit(t, pool, `'order_created', NULL, $1::text::uuid, '{}', id => $2::text::uuid`, aggregate, same.ID)
	require.NoError(t, err)
	require.Equal(t, emitted{same.ID, true}, repeated, "the same event, sent twice")
	_, err = emit(t, pool, `'media_uploaded', NULL, $1::text::uuid, '{}', id => $2::text::uuid`, aggregate, same.ID)
	require.Equal(t, "OX007", state(t, err), "another event may not hide behind a known id")
}

// The second emitter waits for the first one's transaction and takes its answer from the outcome.
func TestDedupeWaitsForTheOtherTransaction(t *testing.T) {
	t.Parallel()
	const arguments = `'order_created', NULL, gen_random_uuid(), '{}', dedupe_key => 'k'`
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit %v", commit), func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.DB(t).Pool
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			first, err := emit(t, tx, arguments)
			require.NoError(t, err)

			type answer struct {
				emitted
				err error
			}
			done := make(chan answer, 1)
			go func() {
				rows, err := pool.Query(t.Context(), "SELECT id::text, already_enqueued FROM outbox_emit("+arguments+")")
				if err != nil {
					done <- answer{err: err}
					return
				}
				e, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[emitted])
				done <- answer{e, err}
			}()
			eventually(t, pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted
				AND transactionid = (SELECT transactionid FROM pg_locks WHERE pid = $1 AND locktype = 'transactionid' AND granted))`,
				int32(tx.Conn().PgConn().PID()))
			if commit {
				require.NoError(t, tx.Commit(t.Context()))
			} else {
				require.NoError(t, tx.Rollback(t.Context()))
			}
			second := <-done
			require.NoError(t, second.err)
			require.Equal(t, commit, second.Already)
			require.Equal(t, commit, second.ID == first.ID)
			require.Equal(t, int64(1), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_events`))
		})
	}
}

// What others put on the table may keep a row out without an error; the producer's transaction must not hang for it.
func TestEmitFunctionsEndWhenTheRowIsKeptOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ ddl, hint string }{
		"unique index": {`ALTER TABLE outbox_events ADD UNIQUE (aggregate_id)`, "unique index outbox_events_aggregate_id_key"},
		"exclusion":    {`ALTER TABLE outbox_events ADD CONSTRAINT apart EXCLUDE (aggregate_id WITH =)`, "unique index apart"},
		"trigger": {`CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER swallow_all BEFORE INSERT ON outbox_events FOR EACH ROW EXECUTE FUNCTION swallow()`, "trigger swallow_all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.DB(t).Pool
			exec(t, pool, insert)
			exec(t, pool, tc.ddl)
			taken := queryOne[string](t, pool, `SELECT aggregate_id::text FROM outbox_events`)
			for name, sql := range map[string]string{
				"":        `SELECT outbox_emit('order_created', NULL, '` + taken + `', '{}')`,
				"event 1": `SELECT outbox_emit_many('[` + strings.ReplaceAll(row(uuid.NewString(), ""), aggregate, taken) + `]')`,
			} {
				_, err := pool.Exec(t.Context(), "SET LOCAL statement_timeout = '1min'; "+sql)
				var pg *pgconn.PgError
				require.ErrorAs(t, err, &pg)
				label := name
				if name != "" {
					label += ": "
				}
				require.Equal(t, []string{"OX008", label + "outbox_events did not take the row, although no event has its id or its dedupe key",
					"It is kept out by " + tc.hint + ", which is not outboxctl's."}, []string{pg.Code, pg.Message, pg.Hint})
			}
			require.Equal(t, int64(1), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_events`))
		})
	}
}

func row(id, key string) string {
	event := map[string]any{
		"id": id, "event_type": "order_created", "aggregate_type": "checkout_group", "aggregate_id": aggregate, "namespace": "default",
		"payload": map[string]any{"version": 1, "eventId": id, "occurredAt": "2026-01-02T03:04:05Z", "data": map[string]any{}},
	}
	if key != "" {
		event["dedupe_key"] = key
	}
	text, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func emitMany(t *testing.T, pool *pgxpool.Pool, events string) []emitted {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT id::text, already_enqueued FROM outbox_emit_many($1::text::jsonb) ORDER BY ord`, events)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[emitted])
	require.NoError(t, err)
	return got
}

// A refusal is a line and a hint; its context is the call itself, and no text of ours.
func TestRefusalsHaveNoPageOfContext(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	id := uuid.NewString()
	_, err := emit(t, pool, `'order_created', NULL, gen_random_uuid(), '{}', id => $1::text::uuid`, id)
	require.NoError(t, err)
	for call, hinted := range map[string]bool{
		`outbox_emit('order_eaten', NULL, gen_random_uuid(), '{}')`:                                                                   true,
		`outbox_emit('order_created', NULL, 7, NULL)`:                                                                                 true,
		`outbox_emit('order_created', NULL, gen_random_uuid(), '{}', headers => '{"a": 1}')`:                                          true,
		`outbox_emit('media_uploaded', NULL, gen_random_uuid(), '{}', id => '` + id + `')`:                                            true,
		`outbox_emit('order_created', NULL, 'seven', '{}')`:                                                                           false,
		`outbox_emit_many('[{"event_type": "order_eaten"}]')`:                                                                         true,
		`outbox_emit_many('[{"event_type": "order_created", "aggregate_id": "seven", "data": {}}]')`:                                  true,
		`outbox_emit_many('[{"event_type": "media_uploaded", "id": "` + id + `", "aggregate_id": "` + aggregate + `", "data": {}}]')`: true,
		`outbox_emit_many('{}')`:                true,
		`outbox_emit_many('[{}, 1]')`:           true,
		`outbox_emit_many('[{"id": "seven"}]')`: true,
	} {
		_, err := pool.Exec(t.Context(), "SELECT "+call)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, call)
		require.NotContains(t, pg.Message, "\n", call)
		require.NotContains(t, pg.Where, "\n", call)
		require.Regexp(t, `^PL/pgSQL function \S*outbox_emit\S*\(.*\) line \d+ at (RAISE|assignment)$`, pg.Where, call)
		require.Equal(t, hinted, pg.Hint != "", call)
	}
}
