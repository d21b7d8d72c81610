package stats_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

const maxAttempts = 10

// world writes some events of every state, different numbers of each so that no two figures can be confused.
const world = `
WITH made AS (
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at, attempt_count,
                           next_attempt_at, dead_at, tenant_id, namespace, max_attempts)
SELECT gen_random_uuid(), w.event_type::event_type_enum, w.aggregate::aggregate_type_enum, gen_random_uuid(), '{}',
       now() - w.age, now() - w.published, w.attempts, now() + w.wait, now() - w.dead, w.tenant, w.namespace, w.most
  FROM (VALUES
    -- n, type, aggregate, age, published, attempts, wait, dead, tenant, namespace, max_attempts; those with a tenant are leased, those of other were
    (3, 'order_canceled', 'vendor_order', interval '10s', NULL::interval, 0, interval '-1s', NULL::interval, NULL::uuid, 'default', NULL::int),
    (4, 'ad_created', 'ad', '20s', NULL, 2, '60s', NULL, NULL, 'default', NULL),
    (5, 'ad_created', 'ad', '30s', NULL, 0, '-1s', NULL, '11111111-1111-1111-1111-111111111111', 'default', NULL),
    (2, 'payment_settled', 'ledger_event', '2 hours', NULL, 1, '-1s', NULL, NULL, 'other', NULL),
    (6, 'media_uploaded', 'media', '40s', NULL, 10, '-1s', '1s', NULL, 'default', NULL),
    (1, 'media_uploaded', 'media', '40s', NULL, 3, '-1s', '1s', NULL, 'default', 3),
    (7, 'license_status_changed', 'license', '50s', '30s', 0, '-1s', NULL, NULL, 'default', NULL),
    (8, 'license_status_changed', 'license', '3 minutes', '2 minutes', 0, '-1s', NULL, NULL, 'default', NULL),
    (9, 'license_status_changed', 'license', '3 hours', '30 minutes', 0, '-1s', NULL, NULL, 'default', NULL),
    (11, 'license_status_changed', 'license', '3 hours', '2 hours', 0, '-1s', NULL, NULL, 'default', NULL)
  ) AS w (n, event_type, aggregate, age, published, attempts, wait, dead, tenant, namespace, most),
  LATERAL generate_series(1, w.n)
RETURNING seq, tenant_id, namespace
)
INSERT INTO outbox_leases (owner, until, seqs)
SELECT gen_random_uuid(), now() + CASE WHEN tenant_id IS NULL THEN interval '-5s' ELSE '20s' END, range_agg(int8range(seq, seq, '[]'))
  FROM made WHERE tenant_id IS NOT NULL OR namespace = 'other' GROUP BY tenant_id;

INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json,
       (CASE WHEN max_attempts IS NULL THEN 'max_attempts' ELSE 'invalid_payload' END)::outbox_dlq_reason, 'x', attempt_count
  FROM outbox_events WHERE dead_at IS NOT NULL;
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, state)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'x', 1, 'replayed' FROM outbox_events LIMIT 5;
`

func build(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), world)
	require.NoError(t, err)
	return pool
}

func collect(t *testing.T, pool *pgxpool.Pool, by string) *stats.Report {
	t.Helper()
	report, err := stats.Collect(t.Context(), pool, registry.New(), stats.Params{MaxAttempts: maxAttempts, By: by})
	require.NoError(t, err)
	return report
}

func TestQuietOutbox(t *testing.T) {
	t.Parallel()
	r := collect(t, outboxtest.DB(t).Pool, "")
	zero := 0.0
	require.Equal(t, &stats.Report{
		At: r.At, Flow: stats.Flow{State: stats.FlowDrained, ETASeconds: &zero}, DLQ: stats.DLQ{ByReason: map[string]int64{}},
		Publishers: []dispatch.Peer{}, Gone: []dispatch.Peer{}, Topics: []stats.TopicState{}, Stranded: []stats.StrandedType{},
		Pauses: []outbox.HeldPause{}, Consumers: []stats.Consumer{},
	}, r)
}

// A type is stranded where every live publisher leaves it to others, in the namespaces that are common to them.
func TestStrandedIsWhatNoPublisherTakes(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, namespace)
SELECT gen_random_uuid(), kind::event_type_enum, 'ad', gen_random_uuid(), '{}', namespace
  FROM unnest(ARRAY['ad_created', 'ad_paused', 'ad_expired']) AS kind, unnest(ARRAY['default', 'shop']) AS namespace;
INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state)
SELECT gen_random_uuid(), 'h', 1, 'v', now(), now() + interval '1 hour', jsonb_build_object('catalogue', c::jsonb)
  FROM unnest(ARRAY['{"unknown": {"*": ["ad_created"]}, "stoodDown": {"shop": ["ad_paused"], "default": ["ad_expired"]}}',
                    '{"unknown": {"shop": ["ad_created", "ad_expired"]}, "stoodDown": {"shop": ["ad_paused"]}}']) AS c`)
	require.NoError(t, err)
	var names []string
	for _, s := range collect(t, pool, "").Stranded {
		names = append(names, s.Name())
	}
	require.Equal(t, []string{"ad_created of namespace shop", "ad_paused of namespace shop"}, names)
	_, err = pool.Exec(t.Context(), `INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state) VALUES (gen_random_uuid(), 'h', 2, 'v', now(), now() + interval '1 hour', '{}')`)
	require.NoError(t, err)
	require.Empty(t, collect(t, pool, "").Stranded, "one that says nothing takes everything")
}

func TestEveryStateIsCounted(t *testing.T) {
	t.Parallel()
	r := collect(t, build(t), "")
	require.EqualValues(t, 14, r.Backlog)
	require.EqualValues(t, 3+2, r.Due, "an expired lease is due again")
	require.EqualValues(t, 4, r.BackingOff)
	require.EqualValues(t, 5, r.InFlight)
	require.EqualValues(t, 7, r.Dead)
	require.EqualValues(t, 6, r.AtMaxAttempts, "one died of something else")
	require.InDelta(t, (2 * time.Hour).Seconds(), r.OldestAgeSeconds, 60)
	require.Equal(t, stats.Published{Last1m: 7, Last5m: 15, Last1h: 24}, r.Published)
	require.Equal(t, stats.DLQ{Open: 7, ByReason: map[string]int64{"max_attempts": 6, "invalid_payload": 1}}, r.DLQ)
	require.InDelta(t, (3.0+4+5+7+7)/60, r.Flow.ArrivalPerSecond, 0.001)
	require.InDelta(t, (7.0+7)/60, r.Flow.DrainPerSecond, 0.001, "the dead leave too")
	require.Equal(t, stats.FlowNotShrinking, r.Flow.State)
	require.Nil(t, r.Flow.ETASeconds, "more comes in than goes out")
}

// A living row can be at its own maximum long before the general one.
func TestALivingRowsOwnMaximumCounts(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, max_attempts, attempt_count)
SELECT gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), '{}', 3, attempts FROM unnest(ARRAY[2, 3]) AS attempts`)
	require.NoError(t, err)
	r := collect(t, pool, "type")
	require.EqualValues(t, 2, r.Backlog)
	require.EqualValues(t, 1, r.AtMaxAttempts)
	require.EqualValues(t, 1, r.Groups[0].AtMaxAttempts)
}

// So can one of a type that has a maximum, under its former name too; its namespace's own type is nearer.
func TestATypesMaximumCounts(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_event_types (namespace, event_type, aggregate_type, topic, digest, options)
VALUES ('*', 'ad_created', 'ad', 'analytics', 'x', '{"policy": {"maxAttempts": 3}, "was": ["ad_updated"]}'), ('shop', 'ad_created', 'ad', 'analytics', 'x', '{}');
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, namespace, max_attempts, attempt_count)
SELECT gen_random_uuid(), kind::event_type_enum, 'ad', gen_random_uuid(), '{}', namespace, own, attempts
  FROM (VALUES ('ad_created', 'default', NULL, 2), ('ad_created', 'default', NULL, 3), ('ad_updated', 'default', NULL, 3),
               ('ad_created', 'default', 5, 3), ('ad_created', 'shop', NULL, 3), ('ad_paused', 'default', NULL, 3)) AS e(kind, namespace, own, attempts)`)
	require.NoError(t, err)
	r := collect(t, pool, "namespace")
	require.EqualValues(t, 6, r.Backlog)
	require.EqualValues(t, 2, r.AtMaxAttempts)
	require.EqualValues(t, 2, r.Groups[0].AtMaxAttempts)
	sample, err := stats.TakeSample(t.Context(), pool, maxAttempts)
	require.NoError(t, err)
	require.EqualValues(t, 2, sample.AtMaxAttempts)
}

// A probe gets the same state as an operator, without what costs most at a high rate.
func TestStateOnly(t *testing.T) {
	t.Parallel()
	pool := build(t)
	full := collect(t, pool, "")
	brief, err := stats.Collect(t.Context(), pool, registry.New(), stats.Params{MaxAttempts: maxAttempts, StateOnly: true})
	require.NoError(t, err)
	require.NotZero(t, full.Published)
	require.Zero(t, brief.Published)
	require.Zero(t, brief.Flow)
	brief.At, brief.OldestAgeSeconds, brief.Published, brief.Flow = full.At, full.OldestAgeSeconds, full.Published, full.Flow
	require.Equal(t, full, brief)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	pool := build(t)
	figures := func(by string) map[string][]int64 {
		got := map[string][]int64{}
		for _, g := range collect(t, pool, by).Groups {
			got[g.Key] = []int64{g.Backlog, g.Due, g.BackingOff, g.InFlight, g.DLQOpen}
		}
		return got
	}
	require.Equal(t, map[string][]int64{
		"order_canceled": {3, 3, 0, 0, 0}, "ad_created": {9, 0, 4, 5, 0}, "payment_settled": {2, 2, 0, 0, 0}, "media_uploaded": {0, 0, 0, 0, 7},
	}, figures("type"))
	require.Equal(t, map[string][]int64{
		"domain": {3, 3, 0, 0, 7}, "analytics": {9, 0, 4, 5, 0}, "billing": {2, 2, 0, 0, 0},
	}, figures("topic"))
	require.Equal(t, map[string][]int64{
		"": {9, 5, 4, 0, 7}, "11111111-1111-1111-1111-111111111111": {5, 0, 0, 5, 0},
	}, figures("tenant"))
	require.Equal(t, map[string][]int64{"default": {12, 3, 4, 5, 7}, "other": {2, 2, 0, 0, 0}}, figures("namespace"))
	require.Equal(t, map[string][]int64{
		"vendor_order": {3, 3, 0, 0, 0}, "ad": {9, 0, 4, 5, 0}, "ledger_event": {2, 2, 0, 0, 0}, "media": {0, 0, 0, 0, 7},
	}, figures("aggregate"))

	// Those without a tenant are what is left of the sum.
	_, err := pool.Exec(t.Context(), `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, tenant_id)
SELECT gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), '{}', 'max_attempts', 'x', 1, CASE WHEN i > 1 THEN '11111111-1111-1111-1111-111111111111'::uuid END FROM generate_series(1, 3) AS i`)
	require.NoError(t, err)
	require.Equal(t, map[string][]int64{
		"": {9, 5, 4, 0, 8}, "11111111-1111-1111-1111-111111111111": {5, 0, 0, 5, 2},
	}, figures("tenant"))
}

func TestLivePublishersAndTheTopicsTheyCannotReach(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_publishers (id, host, pid, version, last_seen_at, state) VALUES
 ('00000000-0000-0000-0000-000000000001', 'one', 11, 'v1', now(),
  '{"inFlight": 7, "topics": [{"topic": "domain", "state": "healthy"}, {"topic": "billing", "state": "unreachable", "error": "away", "since": "2026-01-02T03:04:05Z"}]}'),
 ('00000000-0000-0000-0000-000000000002', 'two', 22, 'v1', now() - interval '5 minutes',
  '{"topics": [{"topic": "domain", "state": "misconfigured"}]}')`)
	require.NoError(t, err)
	r := collect(t, pool, "")
	require.Len(t, r.Publishers, 1, "one that was not heard of lately is not alive")
	require.Equal(t, "one", r.Publishers[0].Host)
	require.EqualValues(t, 7, r.Publishers[0].InFlight)
	require.Len(t, r.Gone, 1)
	require.Equal(t, "two", r.Gone[0].Host)
	require.Equal(t, []stats.TopicState{{
		Topic: "billing", State: "unreachable", Publisher: "one/11", Error: "away", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}}, r.Topics)
}

// The figures agree with what is counted by hand.
func TestFiguresEqualPlainCounts(t *testing.T) {
	t.Parallel()
	pool := build(t)
	r := collect(t, pool, "")
	for query, want := range map[string]int64{
		`SELECT count(*) FROM outbox_event_status WHERE status IN ('pending', 'processing')`:                            r.Backlog,
		`SELECT count(*) FROM outbox_event_status WHERE status = 'processing'`:                                          r.InFlight,
		`SELECT count(*) FROM outbox_event_status WHERE status = 'dead'`:                                                r.Dead,
		`SELECT count(*) FROM outbox_dlq WHERE state = 'open' AND error_reason = 'max_attempts'`:                        r.AtMaxAttempts,
		`SELECT count(*) FROM outbox_events WHERE published_at > now() - interval '1 hour'`:                             r.Published.Last1h,
		`SELECT count(*) FROM outbox_dlq WHERE state = 'open'`:                                                          r.DLQ.Open,
		`SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL AND next_attempt_at > now()`: r.BackingOff,
	} {
		var got int64
		require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&got), query)
		require.Equal(t, want, got, query)
	}
}

// With many published rows behind it, no figure reads the table from end to end.
func TestNoSequentialScan(t *testing.T) {
	t.Parallel()
	pool := build(t)
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
SELECT gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), '{}', now() - i * interval '1 minute' FROM generate_series(1, 20000) AS i;
ANALYZE outbox_events`)
	require.NoError(t, err)
	for name, query := range stats.Queries() {
		rows, err := pool.Query(t.Context(), "EXPLAIN "+strings.ReplaceAll(query, "$1::int", "10"))
		require.NoError(t, err, name)
		var plan []string
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			plan = append(plan, line)
		}
		require.NoError(t, rows.Err())
		require.NotContains(t, strings.Join(plan, "\n"), "Seq Scan on outbox_events", "%s", name)
	}
}

// Dead letters are counted when they are written, by whatever statement, and what is counted stays small.
func TestDeadLettersAreCountedAsTheyChange(t *testing.T) {
	t.Parallel()
	pool := build(t)
	exec := func(sql string) {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	const die = `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), '{}', 'rejected_by_broker', 'x', 1`
	for _, change := range []string{
		die,
		die + ` FROM generate_series(1, 30)`,
		`UPDATE outbox_dlq SET state = 'discarded', state_changed_at = now() WHERE error_reason = 'invalid_payload'`,
		`UPDATE outbox_dlq SET state = 'replayed', state_changed_at = now() WHERE id IN (SELECT id FROM outbox_dlq WHERE state = 'open' LIMIT 4)`,
		`UPDATE outbox_dlq SET state = 'open' WHERE state = 'discarded'`,
		`UPDATE outbox_dlq SET state_changed_at = now()`,
		`UPDATE outbox_dlq SET state = 'discarded' WHERE error_reason = 'rejected_by_broker'`,
		`DELETE FROM outbox_dlq WHERE id IN (SELECT id FROM outbox_dlq WHERE state = 'discarded' LIMIT 7)`,
		`DELETE FROM outbox_dlq WHERE state = 'replayed'`,
		`DO $$ BEGIN FOR i IN 1..300 LOOP ` + die + `; END LOOP; END $$`,
		`BEGIN ISOLATION LEVEL REPEATABLE READ; DO $$ BEGIN FOR i IN 1..70 LOOP ` + die + `; END LOOP; END $$; COMMIT`,
		`BEGIN; ` + die + `; ROLLBACK`,
	} {
		exec(change)
		r := collect(t, pool, "type")
		counted := stats.DLQ{ByReason: map[string]int64{}}
		rows, err := pool.Query(t.Context(), `SELECT error_reason::text, count(*) FROM outbox_dlq WHERE state = 'open' GROUP BY 1`)
		require.NoError(t, err)
		for rows.Next() {
			var reason string
			var n int64
			require.NoError(t, rows.Scan(&reason, &n))
			counted.ByReason[reason] = n
			counted.Open += n
		}
		require.NoError(t, rows.Err())
		require.Equal(t, counted, r.DLQ, change)
		var byType, dead, grouped int64
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE event_type = 'ad_created' AND state = 'open'), count(*)
  FROM outbox_dlq WHERE state <> 'replayed'`).Scan(&byType, &dead))
		for _, g := range r.Groups {
			if g.Key == "ad_created" {
				grouped = g.DLQOpen
			}
		}
		require.Equal(t, []int64{byType, dead}, []int64{grouped, r.Dead}, change)
	}
	var kept int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_dlq_counts`).Scan(&kept))
	require.Less(t, kept, 200, "rows are added up now and then")
}

// Who holds what: by leases, also of those whose heartbeat nobody has.
func TestPublishersAndWhatTheyHold(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state) VALUES
 ('00000000-0000-0000-0000-000000000001', 'silent', 11, 'v1', now() - interval '1 hour', now() - interval '5 minutes', '{"inFlight": 1}'),
 ('00000000-0000-0000-0000-000000000002', 'late', 22, 'v1', now() - interval '1 minute', now(), '[]'),
 ('00000000-0000-0000-0000-000000000003', 'first', 33, 'v2', now() - interval '2 minutes', now(),
  '{"inFlight": 4, "takes": {"namespace": "shop", "eventTypes": ["a", "b"]}}')`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
INSERT INTO outbox_leases (owner, since, until, seqs) VALUES
 ('00000000-0000-0000-0000-000000000003', now() - interval '9 seconds', now() + interval '1 minute', '{[1,4),[6,7)}'),
 ('00000000-0000-0000-0000-000000000003', now() - interval '3 seconds', now() + interval '1 minute', '{[10,12)}'),
 ('00000000-0000-0000-0000-000000000009', now() - interval '70 seconds', now() - interval '10 seconds', '{[20,21)}')`)
	require.NoError(t, err)
	list, err := stats.Publishers(t.Context(), pool)
	require.NoError(t, err)
	var lines []string
	for _, p := range list {
		lines = append(lines, fmt.Sprintf("%s alive=%t %d leases of %d events, oldest %t: %q", p.Host, p.Alive, p.Leases, p.Leased, p.OldestLeaseAt != nil, p.Takes()))
	}
	require.Equal(t, []string{
		`first alive=true 2 leases of 6 events, oldest true: "namespace shop; a, b"`,
		`late alive=true 0 leases of 0 events, oldest false: "everything"`,
		` alive=false 1 leases of 1 events, oldest true: ""`,
		`silent alive=false 0 leases of 0 events, oldest false: "everything"`,
	}, lines)
	r := collect(t, pool, "")
	require.Equal(t, list, append(r.Publishers, r.Gone...))
}
