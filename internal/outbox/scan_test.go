package outbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// scanBundle is one test's database with events in it.
type scanBundle struct {
	t     *testing.T
	ctx   context.Context
	db    *outboxtest.Database
	store *Outbox
	newID func() (uuid.UUID, error)
}

func newScanBundle(t *testing.T) *scanBundle {
	t.Helper()
	t.Parallel()
	db := outboxtest.DB(t)
	return &scanBundle{t: t, ctx: context.Background(), db: db, store: (&Outbox{DB: db.Pool}), newID: uuid.NewV7}
}

func base() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// insert writes an event of an aggregate (empty: a new one) with a status.
func (b *scanBundle) insert(aggregate, status, eventType, namespace string, at time.Time) (id string) {
	b.t.Helper()
	id = uuid.Must(b.newID()).String()
	_, err := b.db.Pool.Exec(b.ctx, `
WITH made AS (
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, namespace, published_at, dead_at)
VALUES ($1::text::uuid, $2::text::event_type_enum, 'vendor_order', $3::text::uuid, '{"version": 1, "data": {}}', $4::timestamptz, $5,
        CASE WHEN $6 = 'published' THEN $4::timestamptz + interval '1 minute' END, CASE WHEN $6 = 'dead' THEN $4::timestamptz + interval '1 minute' END)
RETURNING seq)
INSERT INTO outbox_leases (owner, until, seqs)
SELECT gen_random_uuid(), now() + interval '1 hour', int8multirange(int8range(seq, seq, '[]')) FROM made WHERE $6 = 'processing'`,
		id, eventType, cmp.Or(aggregate, uuid.NewString()), at, namespace, status)
	require.NoError(b.t, err)
	return id
}

// events writes n events of every status and returns their ids in order of emission.
func (b *scanBundle) events(n int) (ids []string) {
	b.t.Helper()
	aggregate := uuid.NewString()
	for i := range n {
		of := ""
		if i%5 == 0 {
			of = aggregate
		}
		ids = append(ids, b.insert(of, []string{StatusDead, StatusPending, StatusProcessing, StatusPublished}[i%4], []string{"order_canceled", "order_expired"}[i/4%2], []string{"default", "eu"}[i%2],
			base().Add(time.Duration(i)*time.Second)))
	}
	return ids
}

func (b *scanBundle) all(s *Scan[Event], n int) (ids []string) {
	b.t.Helper()
	for {
		refs, err := s.Next(b.ctx, n)
		require.NoError(b.t, err)
		if len(refs) == 0 {
			return ids
		}
		require.LessOrEqual(b.t, len(refs), n)
		for _, ref := range refs {
			ids = append(ids, ref.ID)
		}
	}
}

func TestScansFilterAndPage(t *testing.T) {
	b := newScanBundle(t)
	ids := b.events(40)
	rows, err := b.store.Events(b.ctx, ids)
	require.NoError(t, err)
	aggregate := rows[0].AggregateID
	since, until := base().Add(7*time.Second), base().Add(21*time.Second)
	for name, tc := range map[string]struct {
		filter Filter
		wants  func(Event) bool
	}{
		"all":                   {Filter{}, func(Event) bool { return true }},
		"published":             {Filter{Status: "published"}, func(e Event) bool { return e.Status == "published" }},
		"dead":                  {Filter{Status: "dead"}, func(e Event) bool { return e.Status == "dead" }},
		"pending":               {Filter{Status: "pending"}, func(e Event) bool { return e.Status == "pending" }},
		"processing":            {Filter{Status: "processing"}, func(e Event) bool { return e.Status == "processing" }},
		"type":                  {Filter{Types: []string{"order_expired"}}, func(e Event) bool { return e.EventType == "order_expired" }},
		"namespace":             {Filter{Status: "dead", Namespaces: []string{"eu"}}, func(e Event) bool { return e.Status == "dead" && e.Namespace == "eu" }},
		"aggregate":             {Filter{AggregateIDs: []string{aggregate}}, func(e Event) bool { return e.AggregateID == aggregate }},
		"aggregate, dead":       {Filter{Status: "dead", AggregateIDs: []string{aggregate}}, func(e Event) bool { return e.AggregateID == aggregate && e.Status == "dead" }},
		"aggregate, processing": {Filter{Status: "processing", AggregateIDs: []string{aggregate}}, func(e Event) bool { return e.AggregateID == aggregate && e.Status == "processing" }},
		"time":                  {Filter{Since: since, Until: until}, func(e Event) bool { return !e.CreatedAt.Before(since) && e.CreatedAt.Before(until) }},
		"tenant":                {Filter{Tenants: []string{uuid.NewString()}}, func(Event) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, e := range slices.Backward(rows) {
				if tc.wants(e) {
					want = append(want, e.ID)
				}
			}
			scan, err := b.store.ScanEvents(tc.filter, NewestFirst, false)
			require.NoError(t, err)
			require.Equal(t, want, b.all(scan, 3))
			oldest, err := b.store.ScanEvents(tc.filter, OldestFirst, false)
			require.NoError(t, err)
			backward := b.all(oldest, 3)
			slices.Reverse(backward)
			require.Equal(t, want, backward)
			if len(want) < 4 {
				return
			}
			rest, err := b.store.ScanEvents(tc.filter, NewestFirst, false)
			require.NoError(t, err)
			require.NoError(t, rest.After(b.ctx, want[2]))
			require.Equal(t, want[3:], b.all(rest, 100))
		})
	}
	_, err = b.store.ScanEvents(Filter{Status: "odd"}, NewestFirst, false)
	require.Error(t, err)
	scan, err := b.store.ScanEvents(Filter{Status: "dead"}, NewestFirst, false)
	require.NoError(t, err)
	require.ErrorIs(t, scan.After(b.ctx, uuid.NewString()), ErrNotFound)
	require.ErrorIs(t, scan.After(b.ctx, ids[1]), ErrNotFound, "it is not dead")
}

// Ids that an application made at random say nothing about time: the list goes by the last change then.
func TestRandomIDsAreListedNewestFirst(t *testing.T) {
	b := newScanBundle(t)
	b.events(40)
	list := func(f Filter, limit int) (all []Event) {
		for p := (ListParams{Filter: f, Page: Page{Limit: limit}}); ; {
			paged, err := b.store.ListEvents(b.ctx, p, func(e Event) error { all = append(all, e); return nil })
			require.NoError(t, err)
			if p.Cursor = paged.Next; p.Cursor == "" {
				return all
			}
		}
	}
	isByID := func(x, y Event) int { return cmp.Compare(y.ID, x.ID) }
	require.True(t, slices.IsSortedFunc(list(Filter{}, 7), isByID), "ids of version 7 are in the order of their making")

	b.newID = uuid.NewRandom
	b.events(40)
	newest := func(x, y Event) int {
		at := func(e Event) time.Time { return *cmp.Or(e.PublishedAt, e.DeadAt, &e.CreatedAt) }
		return cmp.Or(at(y).Compare(at(x)), cmp.Compare(y.ID, x.ID))
	}
	for _, limit := range []int{1, 7, 100} {
		all := list(Filter{}, limit)
		require.Len(t, all, 80)
		require.True(t, slices.IsSortedFunc(all, newest), "%d at a time", limit)
		some := list(Filter{Types: []string{"order_expired"}, Since: base()}, limit)
		require.Len(t, some, 40)
		require.True(t, slices.IsSortedFunc(some, newest), "%d at a time, chosen", limit)
	}
	require.True(t, slices.IsSortedFunc(list(Filter{}, 0), isByID), "all at once: each once, whatever changes meanwhile")

	_, err := b.db.Pool.Exec(b.ctx, `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', now(), now() + i * interval '1 ms' FROM generate_series(1, 20000) AS i`)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(b.ctx, `ANALYZE outbox_events`)
	require.NoError(t, err)
	scan, err := b.store.ScanEvents(Filter{}, NewestFirst, false)
	require.NoError(t, err)
	scan.Walk.byChange()
	from, orderBy, args := scan.Walk.source(NewestFirst, &Position{"infinity", uuid.NewString()}, 51)
	rows, err := b.db.Pool.Query(b.ctx, "EXPLAIN SELECT id FROM "+from+" ORDER BY "+orderBy+" LIMIT 51", args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan := strings.Join(lines, "\n")
	require.Contains(t, plan, "Backward using outbox_events_published_at_idx")
	require.NotContains(t, plan, "Seq Scan")
}

func TestNeighboursStandAroundTheEvent(t *testing.T) {
	b := newScanBundle(t)
	aggregate := uuid.NewString()
	var ids []string
	for i := range 9 {
		ids = append(ids, b.insert(aggregate, "dead", "order_canceled", "default", base().Add(time.Duration(i/3)*time.Second))) // three share each time
	}
	b.insert("", "dead", "order_canceled", "default", base())
	near, err := b.store.Neighbours(b.ctx, "vendor_order", aggregate, ids[4], base(), 2)
	require.NoError(t, err)
	var got []string
	for _, e := range near {
		got = append(got, e.ID)
	}
	require.Equal(t, []string{ids[2], ids[3], ids[5], ids[6]}, got)
}

// Rows are read by the names of their columns in each of the driver's modes.
func TestEventsAreReadInEveryMode(t *testing.T) {
	b := newScanBundle(t)
	ids := b.events(8)
	want, err := b.store.Events(b.ctx, ids)
	require.NoError(t, err)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := pgxpool.ParseConfig(b.db.URL)
		require.NoError(t, err)
		config.ConnConfig.DefaultQueryExecMode = mode
		config.ConnConfig.RuntimeParams["TimeZone"] = "America/New_York"
		pool, err := pgxpool.NewWithConfig(b.ctx, config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		store := &Outbox{DB: pool}
		got, err := store.Events(b.ctx, ids)
		require.NoError(t, err, "%s", mode)
		require.Equal(t, want, got, "%s", mode)
		one, err := store.Event(b.ctx, ids[0])
		require.NoError(t, err, "%s", mode)
		require.Equal(t, &want[0], one, "%s", mode)
		scan, err := store.ScanEvents(Filter{Status: StatusPublished, Types: []string{"order_canceled"}, Until: time.Now()}, OldestFirst, true)
		require.NoError(t, err, "%s", mode)
		listed, err := scan.List(b.ctx, 10)
		require.NoError(t, err, "%s", mode)
		require.Equal(t, []Event{want[3]}, listed, "%s", mode)
		content, err := store.EventContent(b.ctx, ids[0])
		require.NoError(t, err, "%s", mode)
		require.JSONEq(t, `{"version": 1, "data": {}}`, string(content.Payload))
		require.Nil(t, content.Headers)
		_, err = store.EventContent(b.ctx, uuid.NewString())
		require.ErrorIs(t, err, ErrNotFound, "%s", mode)
		one, err = store.Event(b.ctx, uuid.NewString())
		require.NoError(t, err, "%s", mode)
		require.Nil(t, one, "%s", mode)
	}
}

// What has no index is found all the same, however many windows lie before it.
func TestARareEventIsFoundBehindManyWindows(t *testing.T) {
	b := newScanBundle(t)
	rare := b.insert("", "pending", "order_expired", "default", base())
	_, err := b.db.Pool.Exec(b.ctx, `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
SELECT outbox_uuid_v7(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}' FROM generate_series(1, 11000)`)
	require.NoError(t, err)
	scan, err := b.store.ScanEvents(Filter{Types: []string{"order_expired"}}, NewestFirst, false)
	require.NoError(t, err)
	require.Equal(t, []string{rare}, b.all(scan, 50))
	scan, err = b.store.ScanEvents(Filter{Types: []string{"order_canceled"}}, NewestFirst, false)
	require.NoError(t, err)
	events, err := scan.List(b.ctx, 2500)
	require.NoError(t, err)
	require.Len(t, events, 2500)
}
