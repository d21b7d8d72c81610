package dispatch_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// emitOrders inserts n events and returns their ids in seq order.
func emitOrders(t testing.TB, pool *pgxpool.Pool, n int, change func(i int, p *emit.Event)) []string {
	t.Helper()
	emitter := emit.New(registry.New())
	events := make([]emit.Event, n)
	for i := range events {
		events[i] = emit.Event{
			Type: "order_created", AggregateID: uuid.NewString(),
			Data: map[string]any{"checkoutGroupId": uuid.New(), "vendorOrderIds": []uuid.UUID{uuid.New()}},
		}
		if change != nil {
			change(i, &events[i])
		}
	}
	var ids []string
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		results, err := emitter.EmitAll(t.Context(), tx, events)
		for _, r := range results {
			ids = append(ids, r.ID.String())
		}
		return err
	}))
	return ids
}

func newStore(pool *pgxpool.Pool, scope dispatch.Scope) *dispatch.SQLStore {
	return dispatch.NewSQLStore(pool, pool, uuid.NewString(), scope)
}

func claimAll(limit int) dispatch.ClaimParams {
	return dispatch.ClaimParams{Limit: limit, MaxBytes: 1 << 30, MaxRowBytes: 1 << 30, Lease: 30 * time.Second}
}

func mustClaim(t testing.TB, s *dispatch.SQLStore, p dispatch.ClaimParams) []dispatch.Claimed {
	t.Helper()
	claim, err := s.Claim(t.Context(), p)
	require.NoError(t, err)
	return claim.Rows
}

func idsOf(rows []dispatch.Claimed) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

// rowState is what settling may change.
type rowState struct {
	Published, Dead, Locked bool
	Attempts                int
	LastError               string
	MessageID               string
	WaitSeconds             float64
}

func stateOf(t testing.TB, pool *pgxpool.Pool, id string) (s rowState) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `
SELECT published_at IS NOT NULL, dead_at IS NOT NULL, EXISTS (SELECT FROM outbox_leases AS l WHERE l.seqs @> e.seq), attempt_count,
       coalesce(last_error, ''), coalesce(broker_message_id, ''), round(extract(epoch FROM next_attempt_at - now()))::float8
  FROM outbox_events AS e WHERE id = $1::text::uuid`, id).Scan(
		&s.Published, &s.Dead, &s.Locked, &s.Attempts, &s.LastError, &s.MessageID, &s.WaitSeconds))
	return s
}

// expire ends all leases as time would.
func expire(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `UPDATE outbox_leases SET until = now() - interval '1 second'`)
	require.NoError(t, err)
}

// inEveryMode runs a test in every exec mode of the driver, under a role whose default isolation is REPEATABLE READ.
func inEveryMode(t *testing.T, test func(t *testing.T, pool *pgxpool.Pool)) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(strings.ReplaceAll(mode.String(), " ", "_"), func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			_, err := db.Pool.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_isolation = 'repeatable read'`, db.Name))
			require.NoError(t, err)
			cfg, err := pgxpool.ParseConfig(db.URL)
			require.NoError(t, err)
			cfg.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			test(t, pool)
		})
	}
}

func TestClaimAndSettleInEveryExecMode(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, pool *pgxpool.Pool) {
		tenant := uuid.New()
		ids := emitOrders(t, pool, 6, func(i int, p *emit.Event) {
			p.Headers = map[string]string{"traceparent": "00-1"}
			if i == 5 {
				p.TenantID = tenant
			}
		})
		store := newStore(pool, dispatch.Scope{})
		due, _, err := store.Due(t.Context(), dispatch.ClaimParams{})
		require.NoError(t, err)
		require.True(t, due)

		rows := mustClaim(t, store, claimAll(10))
		require.Equal(t, ids, idsOf(rows))
		var payload string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT payload_json::text FROM outbox_events WHERE id = $1::text::uuid`, ids[0]).Scan(&payload))
		require.Equal(t, payload, string(rows[0].Payload), "the stored bytes")
		require.JSONEq(t, `{"traceparent":"00-1"}`, string(rows[0].Headers))
		require.Equal(t, "order_created", rows[0].EventType)
		require.Equal(t, "checkout_group", rows[0].AggregateType)
		require.Empty(t, mustClaim(t, store, claimAll(10)), "leased rows are not claimed again")
		due, _, err = store.Due(t.Context(), dispatch.ClaimParams{})
		require.NoError(t, err)
		require.False(t, due)

		got, err := store.Settle(t.Context(), dispatch.Verdicts{
			Published: []dispatch.Published{{Key: rows[0].Key, MessageID: "m1"}, {Key: rows[1].Key, MessageID: "m2"}},
			Failed: []dispatch.Failed{
				{Key: rows[2].Key, Error: "unavailable", Delay: 90 * time.Second},
				{Key: rows[3].Key, Error: "no such topic", Delay: 0, Free: true},
			},
			Dead:     []dispatch.Dead{{Key: rows[4].Key, Reason: outbox.ReasonRejectedByBroker, Error: "no «€»", Topic: "domain", Fingerprint: "f", Attempted: true}},
			Released: []dispatch.Key{rows[5].Key},
		})
		require.NoError(t, err)
		require.Equal(t, dispatch.Settled{Published: 2, Failed: 2, Dead: 1, Released: 1}, got)

		require.Equal(t, rowState{Published: true, MessageID: "m1"}, withoutWait(stateOf(t, pool, ids[0])))
		failed := stateOf(t, pool, ids[2])
		require.InDelta(t, 90, failed.WaitSeconds, 30)
		require.Equal(t, rowState{Attempts: 1, LastError: "unavailable"}, withoutWait(failed))
		require.Equal(t, rowState{LastError: "no such topic"}, withoutWait(stateOf(t, pool, ids[3])))
		require.Equal(t, rowState{Dead: true, Attempts: 1, LastError: "no «€»"}, withoutWait(stateOf(t, pool, ids[4])))
		require.Equal(t, rowState{}, withoutWait(stateOf(t, pool, ids[5])))
		require.Equal(t, []string{ids[3], ids[5]}, idsOf(mustClaim(t, store, claimAll(10))), "released and free rows are due at once")
	})
}

func withoutWait(s rowState) rowState {
	s.WaitSeconds = 0
	return s
}

func TestConcurrentClaimsAreDisjointAndExact(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 400, nil)
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range 6 {
		store := newStore(db.Pool, dispatch.Scope{})
		wg.Go(func() {
			for {
				claim, err := store.Claim(t.Context(), claimAll(7))
				mu.Lock()
				if err != nil || len(claim.Rows) > 7 {
					t.Errorf("claimed %d rows: %v", len(claim.Rows), err)
				}
				for _, r := range claim.Rows {
					seen[r.ID]++
				}
				mu.Unlock()
				if len(claim.Rows) == 0 || err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	// A claim that runs while another's is under way skips its rows; what is left then is claimed now.
	for _, r := range mustClaim(t, newStore(db.Pool, dispatch.Scope{}), claimAll(400)) {
		seen[r.ID]++
	}
	require.Len(t, seen, 400)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
}

func TestClaimHonoursItsLimits(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	tenant := uuid.New()
	types := []string{"order_created", "payment_settled"}
	ids := emitOrders(t, db.Pool, 10, func(i int, p *emit.Event) {
		if i%2 == 1 {
			p.Type, p.AggregateType = types[1], ""
			p.Data = map[string]any{"orderId": uuid.New(), "paymentIntentId": uuid.New(), "amountCents": 5, "settledAt": time.Now()}
		}
		if i == 4 {
			p.Namespace = "shop"
		}
		if i == 6 {
			p.TenantID = tenant
		}
	})
	_, err := db.Pool.Exec(t.Context(), `UPDATE outbox_events SET next_attempt_at = now() + interval '1 hour' WHERE id = $1::text::uuid`, ids[0])
	require.NoError(t, err)
	var seqs []int64
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT array_agg(seq ORDER BY seq) FROM outbox_events`).Scan(&seqs))
	names := outbox.Names{
		{Namespace: "*", Name: types[0], Topic: "elsewhere"}, {Namespace: "*", Name: types[1], Topic: "elsewhere"}, {Namespace: "shop", Name: types[0], Topic: "here"},
	}
	pick := func(index ...int) []string {
		out := []string{}
		for _, i := range index {
			out = append(out, ids[i])
		}
		return out
	}
	for name, tc := range map[string]struct {
		scope  dispatch.Scope
		change func(*dispatch.ClaimParams)
		want   []string
	}{
		"oldest first, due only": {want: pick(1, 2, 3), change: func(p *dispatch.ClaimParams) { p.Limit = 3 }},
		"after a seq":            {want: pick(8, 9), change: func(p *dispatch.ClaimParams) { p.AfterSeq = seqs[7] }},
		"only some types":        {want: pick(2, 4, 6, 8), change: func(p *dispatch.ClaimParams) { p.Only = outbox.Everywhere(types[:1]...) }},
		"except some types":      {want: pick(2, 4, 6, 8), change: func(p *dispatch.ClaimParams) { p.Except = outbox.Everywhere(types[1:]...) }},
		"except one elsewhere":   {want: pick(1, 2, 3, 5, 6, 7, 8, 9), change: func(p *dispatch.ClaimParams) { p.Except = outbox.ByNamespace(map[string][]string{"shop": types}) }},
		"except one everywhere": {want: pick(2, 4, 6, 8), change: func(p *dispatch.ClaimParams) {
			p.Except = outbox.ByNamespace(map[string][]string{"*": types[1:], "shop": types[1:]})
		}},
		"except all but one":   {want: pick(4), change: func(p *dispatch.ClaimParams) { p.Except = names.OnTopic("elsewhere") }},
		"only all but one":     {want: pick(1, 2, 3, 5, 6, 7, 8, 9), change: func(p *dispatch.ClaimParams) { p.Only = names.OnTopic("elsewhere") }},
		"only one":             {want: pick(4), change: func(p *dispatch.ClaimParams) { p.Only = names.OnTopic("here") }},
		"a budget of one byte": {want: pick(1), change: func(p *dispatch.ClaimParams) { p.MaxBytes = 1 }},
		"namespace":            {want: pick(4), scope: dispatch.Scope{Namespace: "shop"}},
		"tenant":               {want: pick(6), scope: dispatch.Scope{TenantID: tenant.String()}},
		"types in scope":       {want: pick(1, 3, 5, 7, 9), scope: dispatch.Scope{Types: outbox.Everywhere(types[1:]...)}},
	} {
		p := claimAll(10)
		if tc.change != nil {
			tc.change(&p)
		}
		store := newStore(db.Pool, tc.scope)
		rows := mustClaim(t, store, p)
		require.Equal(t, tc.want, idsOf(rows), name)
		keys := []dispatch.Key{}
		for _, r := range rows {
			keys = append(keys, r.Key)
		}
		_, err := store.Settle(t.Context(), dispatch.Verdicts{Released: keys})
		require.NoError(t, err)
	}
}

// What was published before its table became an outbox has no turn. Published again, it gets one: a lease names events by it.
func TestClaimFindsHistoryThatIsPublishedAgain(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, seq, published_at)
		OVERRIDING SYSTEM VALUE SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', 0, now() FROM generate_series(1, 3)`)
	require.NoError(t, err)
	ids := emitOrders(t, db.Pool, 2, nil)
	store := newStore(db.Pool, dispatch.Scope{})
	require.Equal(t, ids, idsOf(mustClaim(t, store, claimAll(10))))
	_, err = db.Pool.Exec(t.Context(), `SELECT outbox_change('event.republish', array_agg(id), 'me', seen => array_agg(published_at::text)) FROM outbox_events WHERE seq = 0`)
	require.NoError(t, err)
	due, _, err := store.Due(t.Context(), claimAll(10))
	require.NoError(t, err)
	require.True(t, due)
	rows := mustClaim(t, store, claimAll(10))
	require.Len(t, rows, 3)
	require.Positive(t, rows[0].Seq)
	require.Less(t, rows[0].Seq, rows[1].Seq)
	require.Less(t, rows[1].Seq, rows[2].Seq)
}

func TestClaimCountsWhatACompressedPayloadBecomes(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 4, func(_ int, p *emit.Event) {
		p.Type = "order_canceled"
		p.Data = map[string]any{"orderId": uuid.New(), "checkoutGroupId": uuid.New(), "canceledAt": time.Now(), "reason": strings.Repeat("a", 100_000)}
	})
	p := claimAll(10)
	p.MaxBytes = 150_000
	require.Len(t, mustClaim(t, newStore(db.Pool, dispatch.Scope{}), p), 2)
}

// A sweep in windows sees each row once, and ends where it was told to.
func TestClaimKeepsToItsWindow(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, pool *pgxpool.Pool) {
		store := newStore(pool, dispatch.Scope{})
		last, err := store.LastSeq(t.Context())
		require.NoError(t, err)
		require.Zero(t, last)

		ids := emitOrders(t, pool, 9, nil)
		last, err = store.LastSeq(t.Context())
		require.NoError(t, err)
		var got []string
		for after := last - 9; after < last; after += 3 {
			p := claimAll(100)
			p.AfterSeq, p.ThroughSeq = after, after+3
			due, _, err := store.Due(t.Context(), p)
			require.NoError(t, err)
			require.True(t, due)
			got = append(got, idsOf(mustClaim(t, store, p))...)
			require.Len(t, got, int(after+3-(last-9)))
			due, _, err = store.Due(t.Context(), p)
			require.NoError(t, err)
			require.False(t, due)
		}
		require.Equal(t, ids, got)
	})
}

func TestHeldCountsTheLeasesOfOnePublisher(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, pool *pgxpool.Pool) {
		emitOrders(t, pool, 10, nil)
		mine, other := newStore(pool, dispatch.Scope{}), newStore(pool, dispatch.Scope{})
		rows := mustClaim(t, mine, claimAll(4))
		mustClaim(t, other, claimAll(3))
		n, until, err := mine.Held(t.Context())
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.WithinDuration(t, time.Now().Add(30*time.Second), until, 20*time.Second)
		_, err = mine.Settle(t.Context(), dispatch.Verdicts{Released: []dispatch.Key{rows[0].Key}})
		require.NoError(t, err)
		n, _, err = mine.Held(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, n)
		expire(t, pool)
		n, _, err = mine.Held(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})
}
