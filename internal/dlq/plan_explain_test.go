package dlq_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// explaining is a database that keeps the plan of every query instead of its answer.
type explaining struct {
	outbox.Database
	plan string
}

func (e *explaining) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := e.Database.Query(ctx, "EXPLAIN "+sql, args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	e.plan = strings.Join(lines, "\n")
	if err != nil {
		return nil, err
	}
	return e.Database.Query(ctx, "SELECT NULL WHERE false")
}

// A page of any filter is read from its own index, never by a walk over the table or over all open rows.
func TestEveryFilterReadsItsIndex(t *testing.T) {
	b := setup(t)
	// Enough rows, unevenly spread, for the planner to prefer what it would prefer in production.
	b.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at,
                        namespace, tenant_id, topic, fingerprint, state, state_changed_at)
SELECT gen_random_uuid(), (enum_range(NULL::event_type_enum))[1 + i % 18], 'vendor_order', gen_random_uuid(),
       jsonb_build_object('data', repeat(md5(i::text), 8)), (enum_range(NULL::outbox_dlq_reason))[1 + i % 6], 'error number ' || i, 10,
       now() - i * interval '1 minute', 'n' || i % 5, CASE WHEN i % 3 = 0 THEN gen_random_uuid() END, 't' || i % 4, 'f' || i % 40, s.state,
       CASE WHEN s.state <> 'open' THEN now() END
  FROM generate_series(1, 24000) AS i, LATERAL (SELECT (ARRAY['open', 'replayed', 'replayed', 'discarded'])[1 + i % 4] AS state) AS s`)
	b.exec("ANALYZE outbox_dlq")
	id := "0d2f4b1e-0000-4000-8000-000000000001"
	for name, tc := range map[string]struct {
		filter dlq.Filter
		index  string
	}{
		"open":               {dlq.Filter{State: "open"}, "outbox_dlq_open_idx"},
		"all":                {dlq.Filter{}, "outbox_dlq_recent_idx"},
		"discarded":          {dlq.Filter{State: "discarded"}, "outbox_dlq_discarded_idx"},
		"replayed":           {dlq.Filter{State: "replayed"}, "outbox_dlq_recent_idx"},
		"reason":             {dlq.Filter{State: "open", Reasons: []string{"max_attempts"}}, "outbox_dlq_open_reason_idx"},
		"type":               {dlq.Filter{State: "open", Types: []string{"order_canceled"}}, "outbox_dlq_open_type_idx"},
		"topic":              {dlq.Filter{State: "open", Topics: []string{"t0"}}, "outbox_dlq_open_topic_idx"},
		"fingerprint":        {dlq.Filter{State: "open", Fingerprints: []string{"f4"}}, "outbox_dlq_open_fingerprint_idx"},
		"namespace":          {dlq.Filter{State: "open", Namespaces: []string{"n1"}}, "outbox_dlq_open_namespace_idx"},
		"tenant":             {dlq.Filter{State: "open", Tenants: []string{id}}, "outbox_dlq_open_tenant_idx"},
		"aggregate":          {dlq.Filter{State: "open", AggregateIDs: []string{id}}, "outbox_dlq_open_aggregate_idx"},
		"since":              {dlq.Filter{State: "open", Since: base()}, "outbox_dlq_open_idx"},
		"until":              {dlq.Filter{State: "open", Until: base()}, "outbox_dlq_open_idx"},
		"error":              {dlq.Filter{State: "open", ErrorLike: "x"}, "outbox_dlq_open_idx"},
		"error, fingerprint": {dlq.Filter{State: "open", ErrorLike: "x", Fingerprints: []string{"f4"}}, "outbox_dlq_open_fingerprint_idx"},
		"reason, all":        {dlq.Filter{Reasons: []string{"max_attempts"}}, "outbox_dlq_recent_idx"},
	} {
		t.Run(name, func(t *testing.T) {
			db := &explaining{Database: b.pool}
			scan, err := dlq.New(db, registry.New()).ScanDeadLetters(tc.filter, outbox.NewestFirst)
			require.NoError(t, err)
			_, err = scan.Next(b.ctx, 50)
			require.NoError(t, err)
			require.Contains(t, db.plan, tc.index)
			require.NotContains(t, db.plan, "Seq Scan on outbox_dlq")
			require.Equal(t, 1, strings.Count(db.plan, "_idx"), "one index:\n%s", db.plan)
			scan, err = dlq.New(db, registry.New()).ScanDeadLetters(tc.filter, outbox.NewestFirst)
			require.NoError(t, err)
			_, err = scan.List(b.ctx, 50)
			require.NoError(t, err)
			require.Contains(t, db.plan, tc.index)
			require.NotContains(t, db.plan, "Seq Scan on outbox_dlq")
		})
	}
}

// A grouping of what is open reads no dead letter but the ends of each group; a span of time is read from an index alone.
func TestGroupsReadTheirIndex(t *testing.T) {
	b := setup(t)
	b.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint)
SELECT gen_random_uuid(), 'ad_paused', 'ad', gen_random_uuid(), jsonb_build_object('data', repeat(md5(i::text), 8)), (enum_range(NULL::outbox_dlq_reason))[1 + i % 3], 'error', 10,
       now() - i * interval '1 minute', 't' || i % 2, 'f' || i % 40
  FROM generate_series(1, 8000) AS i`)
	b.exec("VACUUM ANALYZE outbox_dlq")
	db := &explaining{Database: b.pool}
	store := dlq.New(db, registry.New())
	for by, index := range map[string]string{
		"fingerprint": "outbox_dlq_open_fingerprint_idx", "reason": "outbox_dlq_open_reason_idx", "type": "outbox_dlq_open_type_idx", "topic": "outbox_dlq_open_topic_idx",
	} {
		_, err := store.Groups(b.ctx, dlq.Filter{State: "open"}, by, 200)
		require.NoError(t, err)
		require.Contains(t, db.plan, "using "+index, by)
		require.Contains(t, db.plan, map[bool]string{true: "on outbox_dlq_causes", false: "on outbox_dlq_counts"}[by == "fingerprint"], by)
		require.NotContains(t, db.plan, "Seq Scan on outbox_dlq\n", by)
		require.NotContains(t, db.plan, "Seq Scan on outbox_dlq ", by)
		_, err = store.Groups(b.ctx, dlq.Filter{State: "open", Since: base().AddDate(-9, 0, 0)}, by, 200)
		require.NoError(t, err)
		require.Contains(t, db.plan, "Index Only Scan using "+index, by)
		require.NotContains(t, db.plan, "Seq Scan", by)
	}
	_, err := store.DeathsPerHour(b.ctx, 24, []string{"f1", "f2"})
	require.NoError(t, err)
	require.Contains(t, db.plan, "outbox_dlq_open_fingerprint_idx")
	require.NotContains(t, db.plan, "Seq Scan")
	_, err = store.HandledCauses(b.ctx, []string{"f1", "f2"})
	require.NoError(t, err)
	require.Contains(t, db.plan, "outbox_dlq_handled_idx")
	require.Contains(t, db.plan, "outbox_dlq_event_idx")
}

// The columns whose types differ between installations have their indexes in each.
func TestFiltersReadTheirIndexInEveryShape(t *testing.T) {
	t.Parallel()
	for _, shape := range outboxtest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.ShapedDB(t, shape).Pool
			_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at)
SELECT gen_random_uuid(), outbox_event_type((ARRAY['ad_paused', 'media_uploaded'])[1 + i % 2]), outbox_aggregate_type((ARRAY['ad', 'media'])[1 + i % 2]),
       outbox_aggregate_id(CASE WHEN $1 THEN (1000 + i / 2)::text ELSE '018f3f6e-0000-7000-8000-' || lpad((i / 2)::text, 12, '0') END),
       jsonb_build_object('data', repeat(md5(i::text), 8)), 'max_attempts', 'error', 10, now() - i * interval '1 minute'
  FROM generate_series(1, 4000) AS i`, shape.Integers())
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), "ANALYZE outbox_dlq")
			require.NoError(t, err)
			id := shape.AggregateID(7)
			for name, tc := range map[string]struct {
				filter dlq.Filter
				index  string
				found  int
			}{
				"type":           {dlq.Filter{State: "open", Types: []string{"ad_paused"}}, "outbox_dlq_open_type_idx", 2000},
				"types":          {dlq.Filter{State: "open", Types: []string{"ad_paused", "ad_created"}}, "outbox_dlq_open_idx", 2000},
				"aggregate":      {dlq.Filter{State: "open", AggregateIDs: []string{id}}, "outbox_dlq_open_aggregate_idx", 2},
				"type/id":        {dlq.Filter{State: "open", AggregateType: "ad", AggregateIDs: []string{id}}, "outbox_dlq_open_aggregate_idx", 1},
				"aggregate type": {dlq.Filter{State: "open", AggregateType: "media"}, "outbox_dlq_open_idx", 2000},
			} {
				scan, err := dlq.New(pool, registry.New()).ScanDeadLetters(tc.filter, outbox.NewestFirst)
				require.NoError(t, err, name)
				found, err := scan.List(t.Context(), 5000)
				require.NoError(t, err, name)
				require.Len(t, found, tc.found, name)
				db := &explaining{Database: pool}
				scan, err = dlq.New(db, registry.New()).ScanDeadLetters(tc.filter, outbox.NewestFirst)
				require.NoError(t, err, name)
				_, err = scan.Next(t.Context(), 50)
				require.NoError(t, err, name)
				require.Contains(t, db.plan, "using "+tc.index, name)
			}
			groups, err := dlq.New(pool, registry.New()).Groups(t.Context(), dlq.Filter{State: "open"}, "type", 5)
			require.NoError(t, err)
			require.Len(t, groups, 2)
			require.NotEmpty(t, groups[0].SampleID)
		})
	}
}

// What has no index is found all the same, however many windows lie before it.
func TestARareErrorIsFoundBehindManyWindows(t *testing.T) {
	b := setup(t)
	b.many(25_000)
	rare, _ := b.die(death{Error: "the needle", At: base().Add(-1)})
	require.Equal(t, []string{rare}, b.all(b.scan(dlq.Filter{State: "open", ErrorLike: "NEEDLE"}, outbox.NewestFirst), 50))
	entries, err := b.scan(dlq.Filter{State: "open", ErrorLike: "no"}, outbox.NewestFirst).List(b.ctx, 11_000)
	require.NoError(t, err)
	require.Len(t, entries, 11_000)
}
