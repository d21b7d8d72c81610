package dispatch_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// Neither a claim nor giving back writes an event: the row stays where it is.
func TestLeasingWritesNoEvent(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 20, nil)
	keyed(t, db.Pool, "a", "a", "b")
	const places = `SELECT array_agg(ctid::text ORDER BY seq) FROM outbox_events`
	var before, after []string
	require.NoError(t, db.Pool.QueryRow(t.Context(), places).Scan(&before))
	store := newStore(db.Pool, dispatch.Scope{})
	var given dispatch.Verdicts
	for _, row := range append(mustClaim(t, store, claimAll(100)), claimOrdered(t, store, orderedAll(100))...) {
		given.Released = append(given.Released, row.Key)
	}
	require.Equal(t, 23, given.Len())
	settle(t, store, given)
	require.NoError(t, db.Pool.QueryRow(t.Context(), places).Scan(&after))
	require.Equal(t, before, after)
	var leases int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_leases`).Scan(&leases))
	require.Zero(t, leases)
	require.Len(t, mustClaim(t, newStore(db.Pool, dispatch.Scope{}), claimAll(100)), 20, "all of it is due again")
}

// What is over the byte budget is not leased when the claim returns, and neither is anything of a claim that failed.
func TestWhatIsNotReadIsGivenBack(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 5, nil)
	p := claimAll(5)
	p.MaxBytes = 1
	store := newStore(db.Pool, dispatch.Scope{})
	require.Len(t, mustClaim(t, store, p), 1)
	held, _, err := store.Held(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, held)

	bad, _ := unreadable(t, db.Pool, 3, 1)
	_, err = bad.Claim(t.Context(), claimAll(100))
	require.Error(t, err)
	held, _, err = bad.Held(t.Context())
	require.NoError(t, err)
	require.Zero(t, held)
}

// A claim whose rows another publisher leased a moment before finds nothing, and says that there may be more: a run with
// Once would end here otherwise, with events left. The view shows the other's lease from the look on, as it is to a claim that
// locked before the other had committed.
func TestAClaimThatCameSecondIsFull(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 8, nil)
	_, err := db.Pool.Exec(t.Context(), `INSERT INTO outbox_leases (id, owner, until, seqs)
		SELECT 1, gen_random_uuid(), now() + interval '1 hour', range_agg(int8range(seq, seq, '[]'))
		  FROM (SELECT seq FROM outbox_events ORDER BY seq LIMIT 5) AS first`)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `ALTER TABLE outbox_leases RENAME TO all_leases;
		CREATE VIEW outbox_leases AS SELECT * FROM all_leases WHERE id <> 1 OR current_setting('outboxctl.locked', true) <> ''`)
	require.NoError(t, err)
	store := newStore(db.Pool, dispatch.Scope{})
	second, err := store.Claim(t.Context(), claimAll(5))
	require.NoError(t, err)
	require.Empty(t, second.Rows)
	require.True(t, second.Full)
	require.True(t, second.Beaten)
	p := claimAll(8)
	p.MaxBytes = 1
	small, err := store.Claim(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, small.Rows, 1)
	require.True(t, small.Full)
	require.False(t, small.Beaten, "it was its bytes that ended it")
	_, err = db.Pool.Exec(t.Context(), `DROP VIEW outbox_leases; ALTER TABLE all_leases RENAME TO outbox_leases`)
	require.NoError(t, err)
	third, err := store.Claim(t.Context(), claimAll(5))
	require.NoError(t, err)
	require.Len(t, third.Rows, 2)
	require.False(t, third.Full)
}

// A part of a lease is settled, twice because its reply was lost, and the rest stays leased.
func TestASettleTakesItsRowsOutOfTheLease(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ids := emitOrders(t, db.Pool, 3, nil)
	store := newStore(db.Pool, dispatch.Scope{})
	rows := mustClaim(t, store, claimAll(3))
	failed := dispatch.Verdicts{Failed: []dispatch.Failed{{Key: rows[1].Key, Error: "no"}}}
	settle(t, store, failed)
	n, err := store.Settle(t.Context(), failed)
	require.NoError(t, err)
	require.Zero(t, n.Len())
	require.Equal(t, 1, stateOf(t, db.Pool, ids[1]).Attempts)
	held, _, err := store.Held(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, held)
	require.Equal(t, ids[1:2], idsOf(mustClaim(t, newStore(db.Pool, dispatch.Scope{}), claimAll(3))))
}

// The lease of one publisher does not let another settle, and a verdict under an older lease of one's own settles nothing,
// also beside others that do.
func TestAFormerLeaseSettlesNothing(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 2, nil)
	store := newStore(db.Pool, dispatch.Scope{})
	old := mustClaim(t, store, claimAll(2))
	n, err := newStore(db.Pool, dispatch.Scope{}).Settle(t.Context(), dispatch.Verdicts{Released: []dispatch.Key{old[0].Key}})
	require.NoError(t, err)
	require.Zero(t, n.Len())
	expire(t, db.Pool)
	again := mustClaim(t, store, claimAll(2))
	n, err = store.Settle(t.Context(), dispatch.Verdicts{
		Published: []dispatch.Published{{Key: again[1].Key, MessageID: "m"}},
		Failed:    []dispatch.Failed{{Key: old[0].Key, Error: "late"}},
	})
	require.NoError(t, err)
	require.Equal(t, dispatch.Settled{Published: 1}, n)
}

// No clock is part of the fence: a lease whose time is over settles what it names, until a claim has ended it.
func TestALateSettleHoldsWhileNobodyEndedItsLease(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 1, nil)
	store := newStore(db.Pool, dispatch.Scope{})
	row := mustClaim(t, store, claimAll(1))[0]
	expire(t, db.Pool)
	settle(t, store, dispatch.Verdicts{Published: []dispatch.Published{{Key: row.Key, MessageID: "m"}}})
	require.Empty(t, mustClaim(t, newStore(db.Pool, dispatch.Scope{}), claimAll(1)))
}

// A verdict that its lease does not follow is none: the row would be settled and leased at once.
func TestAVerdictAndItsLeaseChangeTogether(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	id := emitOrders(t, db.Pool, 1, nil)[0]
	store := newStore(db.Pool, dispatch.Scope{})
	row := mustClaim(t, store, claimAll(1))[0]
	_, err := db.Pool.Exec(t.Context(), `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON outbox_leases FOR EACH ROW EXECUTE FUNCTION refuse()`)
	require.NoError(t, err)
	for _, v := range everyVerdict(row) {
		_, err := store.Settle(t.Context(), v)
		require.ErrorContains(t, err, "not now")
		state := stateOf(t, db.Pool, id)
		require.True(t, state.Locked && !state.Published && !state.Dead && state.Attempts == 0, state)
	}
}

// stoppable are connections whose client reads nothing while it is locked.
type stoppable struct {
	net.Conn
	running *sync.RWMutex
}

func (s stoppable) Read(p []byte) (int, error) {
	s.running.RLock()
	defer s.running.RUnlock()
	return s.Conn.Read(p)
}

// A publisher that stops in the middle of reading what it has claimed holds no row.
func TestAStoppedReaderHoldsNoLock(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 1, nil)
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	var running sync.RWMutex
	config.MaxConns = 1
	// A ping of a connection that a slow machine let idle would wait for the stopped reader, and the claim for the ping.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return stoppable{conn, &running}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store := dispatch.NewSQLStore(pool, db.Pool, uuid.NewString(), dispatch.Scope{})
	require.Len(t, mustClaim(t, store, claimAll(1)), 1, "its statements are prepared")
	_, err = db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
		SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), jsonb_build_object('x', repeat('x', 200000)) FROM generate_series(1, 200)`)
	require.NoError(t, err)
	running.Lock()
	claimed := make(chan int)
	go func() {
		claim, err := store.Claim(context.WithoutCancel(t.Context()), claimAll(200))
		if err != nil {
			t.Error(err)
		}
		claimed <- len(claim.Rows)
	}()
	const writing = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientWrite'`
	var n int
	stuck := func() bool { return db.Pool.QueryRow(t.Context(), writing).Scan(&n) == nil && n == 1 }
	waits := assert.Eventually(t, stuck, time.Minute, time.Millisecond, "the server waits for the client")
	err = db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM outbox_events FOR UPDATE SKIP LOCKED) AS free`).Scan(&n)
	running.Unlock()
	require.Equal(t, 200, <-claimed)
	require.True(t, waits)
	require.NoError(t, err)
	require.Equal(t, 201, n)
}

// A lease whose time is over is ended by a sweep. A claim that keeps to its hint, or keeps leases, leaves it, and says before that there is nothing.
func TestSweepsEndLeases(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]dispatch.ClaimParams{"plain": claimAll(3), "ordered": orderedAll(10)} {
		db := outboxtest.DB(t)
		emitOrders(t, db.Pool, 3, nil)
		keyed(t, db.Pool, "a", "b")
		got, err := newStore(db.Pool, dispatch.Scope{}).Claim(t.Context(), p)
		require.NoError(t, err)
		require.NotEmpty(t, got.Rows)
		expire(t, db.Pool)
		store := newStore(db.Pool, dispatch.Scope{})
		for _, sweep := range []struct{ it, keeps bool }{{}, {it: true, keeps: true}, {it: true}} {
			p.AfterSeq, p.Sweep, p.KeepLeases = 1, sweep.it, sweep.keeps
			ends := sweep.it && !sweep.keeps
			due, _, err := store.Due(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, ends, due, name)
			got, err := store.Claim(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, ends, len(got.Rows) > 0, name)
		}
	}
}

// lostReplies are connections whose server does everything and whose answers never come.
type lostReplies struct{ *pgxpool.Pool }

func (l lostReplies) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	_ = l.Pool.SendBatch(ctx, b).Close()
	return lostResults{}
}

type lostResults struct{ pgx.BatchResults }

func (lostResults) Exec() (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, context.DeadlineExceeded
}
func (lostResults) Query() (pgx.Rows, error) { return nil, context.DeadlineExceeded }
func (l lostResults) QueryRow() pgx.Row      { return l }
func (lostResults) Scan(...any) error        { return context.DeadlineExceeded }
func (lostResults) Close() error             { return context.DeadlineExceeded }

// A claim that the server has made although its publisher gave up waiting is given back: nobody would send its rows, and
// each would be charged when the lease ends.
func TestAClaimWithoutAnAnswerIsGivenBack(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	emitOrders(t, db.Pool, 3, nil)
	keyed(t, db.Pool, "a", "b")
	store := dispatch.NewSQLStore(lostReplies{db.Pool}, db.Pool, uuid.NewString(), dispatch.Scope{})
	for _, p := range []dispatch.ClaimParams{claimAll(10), orderedAll(10)} {
		_, err := store.Claim(t.Context(), p)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var leases int
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_leases`).Scan(&leases))
		require.Zero(t, leases)
	}
	require.Len(t, mustClaim(t, newStore(db.Pool, dispatch.Scope{}), claimAll(10)), 3)
}
