package dispatch_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// insertOrdered is a plain INSERT, as any program with the right may send it.
const insertOrdered = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key)
VALUES ($1::text::uuid, $2::text::event_type_enum, 'vendor_order', gen_random_uuid(), '{}', 'default/' || $3::text) RETURNING seq`

// keyed inserts one event for each key given and returns their ids.
func keyed(t testing.TB, pool *pgxpool.Pool, keys ...string) (ids []string) {
	t.Helper()
	for _, key := range keys {
		id := uuid.NewString()
		_, err := pool.Exec(t.Context(), insertOrdered, id, "order_state_changed", key)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

func orderedAll(limit int) dispatch.ClaimParams {
	p := claimAll(limit)
	p.Ordered, p.Sweep, p.Window = true, true, 1000
	return p
}

func claimOrdered(t testing.TB, s *dispatch.SQLStore, p dispatch.ClaimParams) []dispatch.Claimed {
	t.Helper()
	got, err := s.Claim(t.Context(), p)
	require.NoError(t, err)
	return got.Rows
}

func settle(t testing.TB, s *dispatch.SQLStore, v dispatch.Verdicts) {
	t.Helper()
	n, err := s.Settle(t.Context(), v)
	require.NoError(t, err)
	require.Equal(t, v.Len(), n.Len())
}

func dead(row dispatch.Claimed) dispatch.Verdicts {
	return dispatch.Verdicts{Dead: []dispatch.Dead{{Key: row.Key, Reason: outbox.ReasonRejectedByBroker, Error: "no", Attempted: true}}}
}

// operate calls one of the operators' functions for the latest dead letter of an event.
func operate(t testing.TB, pool *pgxpool.Pool, action, event string) (outcome string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `
SELECT f.outcome FROM outbox_change('`+action+`', ARRAY(SELECT id FROM outbox_dlq WHERE event_id = $1::text::uuid ORDER BY failed_at DESC, id DESC LIMIT 1), 'tests') AS f`,
		event).Scan(&outcome))
	return outcome
}

func TestClaimOrderedTakesRunsInEveryExecMode(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, pool *pgxpool.Pool) {
		ids := keyed(t, pool, "a", "b", "a", "b", "a")
		plain := emitOrders(t, pool, 1, nil)
		one, two := newStore(pool, dispatch.Scope{}), newStore(pool, dispatch.Scope{})
		due, _, err := one.Due(t.Context(), dispatch.ClaimParams{Ordered: true})
		require.NoError(t, err)
		require.True(t, due)
		p := claimAll(10)
		got, err := two.Claim(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, plain, idsOf(got.Rows), "the plain claim leaves keys alone")
		require.True(t, got.Keyed, "and says that there are some")
		p.KeyedAfter = got.Rows[0].Seq
		got, err = two.Claim(t.Context(), p)
		require.NoError(t, err)
		require.False(t, got.Keyed)
		_, waiting, err := two.Due(t.Context(), p)
		require.NoError(t, err)
		require.False(t, waiting)
		_, waiting, err = two.Due(t.Context(), dispatch.ClaimParams{})
		require.NoError(t, err)
		require.True(t, waiting)

		got, err = one.Claim(t.Context(), orderedAll(8)) // two rows of a key
		require.NoError(t, err)
		require.Equal(t, ids[:4], idsOf(got.Rows))
		require.Equal(t, "default/a", got.Rows[0].OrderingKey)
		require.Equal(t, "{}", string(got.Rows[0].Payload))
		require.Equal(t, []any{5, got.Rows[3].Seq + 1, false}, []any{got.Seen, got.SeenTo, got.Full})
		require.Empty(t, claimOrdered(t, two, orderedAll(8)), "the head of a is leased, so its follower waits")

		settle(t, one, dispatch.Verdicts{Published: []dispatch.Published{{Key: got.Rows[0].Key}}, Released: []dispatch.Key{got.Rows[2].Key}})
		require.Equal(t, []string{ids[2], ids[4]}, idsOf(claimOrdered(t, two, orderedAll(8))))
	})
}

// What holds back a key, whatever the claim is told to look at.
func TestClaimOrderedWaitsForTheHead(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(t *testing.T, pool *pgxpool.Pool, head string, p *dispatch.ClaimParams){
		"leased": func(t *testing.T, pool *pgxpool.Pool, _ string, _ *dispatch.ClaimParams) {
			claimOrdered(t, newStore(pool, dispatch.Scope{}), orderedAll(1))
		},
		"backing off": func(t *testing.T, pool *pgxpool.Pool, head string, _ *dispatch.ClaimParams) {
			_, err := pool.Exec(t.Context(), `UPDATE outbox_events SET next_attempt_at = now() + interval '1 hour' WHERE id = $1::text::uuid`, head)
			require.NoError(t, err)
		},
		"scheduled": func(t *testing.T, pool *pgxpool.Pool, head string, _ *dispatch.ClaimParams) {
			_, err := pool.Exec(t.Context(), `UPDATE outbox_events SET deliver_at = now() + interval '1 hour', next_attempt_at = now() + interval '1 hour' WHERE id = $1::text::uuid`, head)
			require.NoError(t, err)
		},
		"dead, beside the hint": func(t *testing.T, pool *pgxpool.Pool, _ string, p *dispatch.ClaimParams) {
			s := newStore(pool, dispatch.Scope{})
			settle(t, s, dead(claimOrdered(t, s, orderedAll(1))[0]))
			p.Sweep = false
		},
		"dead": func(t *testing.T, pool *pgxpool.Pool, _ string, _ *dispatch.ClaimParams) {
			s := newStore(pool, dispatch.Scope{})
			settle(t, s, dead(claimOrdered(t, s, orderedAll(1))[0]))
		},
		"of another type": func(t *testing.T, _ *pgxpool.Pool, _ string, p *dispatch.ClaimParams) {
			p.Only = outbox.Everywhere("cash_collected")
		},
		"of a paused topic": func(t *testing.T, _ *pgxpool.Pool, _ string, p *dispatch.ClaimParams) {
			p.Except = outbox.Everywhere("order_state_changed")
		},
		"before the hint and leased": func(t *testing.T, pool *pgxpool.Pool, head string, p *dispatch.ClaimParams) {
			claimOrdered(t, newStore(pool, dispatch.Scope{}), orderedAll(1))
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT seq FROM outbox_events WHERE id = $1::text::uuid`, head).Scan(&p.AfterSeq))
			p.Sweep = false
		},
		"leased, and the key is looked at": func(t *testing.T, pool *pgxpool.Pool, _ string, p *dispatch.ClaimParams) {
			claimOrdered(t, newStore(pool, dispatch.Scope{}), orderedAll(1))
			p.Look = []string{"default/a"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			ids := keyed(t, db.Pool, "a")
			_, err := db.Pool.Exec(t.Context(), insertOrdered, uuid.NewString(), "cash_collected", "a")
			require.NoError(t, err)
			p := orderedAll(100)
			hide(t, db.Pool, ids[0], &p)
			require.Empty(t, claimOrdered(t, newStore(db.Pool, dispatch.Scope{}), p))
		})
	}
}

// What follows in a key is taken although it lies behind the window.
func TestRunsReachBehindTheWindow(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ids := keyed(t, db.Pool, "a", "b", "a", "c")
	p := orderedAll(100)
	p.Window = 2
	got, err := newStore(db.Pool, dispatch.Scope{}).Claim(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, ids[:3], idsOf(got.Rows))
	require.Equal(t, []any{2, got.Rows[1].Seq, false}, []any{got.Seen, got.SeenTo, got.Full})
}

// A row that another session has locked is neither skipped over nor left out of the count.
func TestClaimOrderedStopsAtALockedRow(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ids := keyed(t, db.Pool, "a", "a", "a", "a")
	store := newStore(db.Pool, dispatch.Scope{})
	require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT FROM outbox_events WHERE id = $1::text::uuid FOR UPDATE`, ids[2])
		require.NoError(t, err)
		require.Equal(t, ids[:2], idsOf(claimOrdered(t, store, orderedAll(100))))
		return nil
	}))
}

// The end of a lease is charged to the head: only that may have been sent.
func TestExpiredRunChargesItsHeadOnly(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	keyed(t, db.Pool, "a", "a")
	claimOrdered(t, newStore(db.Pool, dispatch.Scope{}), orderedAll(100))
	expire(t, db.Pool)
	rows := claimOrdered(t, newStore(db.Pool, dispatch.Scope{}), orderedAll(100))
	require.Equal(t, []any{1, true, 0, false}, []any{rows[0].AttemptCount, rows[0].Expired, rows[1].AttemptCount, rows[1].Expired})
}

func TestOperatorsKeepTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ids := keyed(t, db.Pool, "a", "a", "a")
	store := newStore(db.Pool, dispatch.Scope{})
	next := func() []string { return idsOf(claimOrdered(t, store, orderedAll(4))) }
	die := func(id string) {
		rows := claimOrdered(t, store, orderedAll(4))
		require.Equal(t, id, rows[0].ID)
		settle(t, store, dead(rows[0]))
		require.Empty(t, next(), "a dead head holds back the rest")
	}
	die(ids[0])

	require.Equal(t, "replayed", operate(t, db.Pool, "dlq.replay", ids[0]))
	die(ids[0])
	require.Equal(t, "discarded", operate(t, db.Pool, "dlq.discard", ids[0]))
	require.Equal(t, "restored", operate(t, db.Pool, "dlq.restore", ids[0]))
	require.Empty(t, next(), "a restored head holds back what has not been sent")
	require.Equal(t, "discarded", operate(t, db.Pool, "dlq.discard", ids[0]))
	rows := claimOrdered(t, store, orderedAll(4))
	require.Equal(t, ids[1], rows[0].ID, "a discarded head is passed")
	settle(t, store, dispatch.Verdicts{Published: []dispatch.Published{{Key: rows[0].Key}}})

	_, err := db.Pool.Exec(t.Context(), `SELECT FROM outbox_change('event.republish', ARRAY[$1::text::uuid], 'tests')`, ids[1])
	require.NoError(t, err)
	require.Equal(t, []string{ids[1]}, next(), "a republished event goes before what follows it")
}

// An event that died twice and was never replayed through its first letter is passed when the last letter is closed.
func TestDiscardPassesWhenNoLetterIsOpen(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ids := keyed(t, db.Pool, "a", "a")
	store := newStore(db.Pool, dispatch.Scope{})
	settle(t, store, dead(claimOrdered(t, store, orderedAll(4))[0]))
	_, err := db.Pool.Exec(t.Context(), `
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at)
SELECT event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at - interval '1 hour' FROM outbox_dlq`)
	require.NoError(t, err)
	require.Equal(t, "discarded", operate(t, db.Pool, "dlq.discard", ids[0]))
	require.Empty(t, claimOrdered(t, store, orderedAll(4)), "a letter of the head is still open")
	_, err = db.Pool.Exec(t.Context(), `SELECT FROM outbox_change('dlq.discard', ARRAY(SELECT id FROM outbox_dlq), 'tests')`)
	require.NoError(t, err)
	require.Equal(t, ids[1:], idsOf(claimOrdered(t, store, orderedAll(4))))
}

func TestCleanupRemovesWhatWasPassed(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ids := keyed(t, db.Pool, "a", "b")
	store := newStore(db.Pool, dispatch.Scope{})
	for _, row := range claimOrdered(t, store, orderedAll(4)) {
		settle(t, store, dead(row))
	}
	require.Equal(t, "discarded", operate(t, db.Pool, "dlq.discard", ids[0]))
	var letters, events int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
SELECT deleted, deleted_events FROM outbox_cleanup('dlq', now(), NULL, 100, 'tests', NULL, NULL, NULL)`).Scan(&letters, &events))
	require.Equal(t, []int{1, 1}, []int{letters, events})
	_, err := db.Pool.Exec(t.Context(), `DELETE FROM outbox_events WHERE id = $1::text::uuid`, ids[1])
	require.ErrorContains(t, err, "events of its ordering key wait for it")
}

func TestTableRefusesWhatBreaksTheOrder(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	keyed(t, db.Pool, "a")
	for name, tc := range map[string]struct{ sql, code string }{
		"another key":            {`UPDATE outbox_events SET ordering_key = 'default/b'`, "OX100"},
		"passing a living event": {`UPDATE outbox_events SET passed_at = now()`, "23514"},
		"a key of another namespace": {`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key)
			VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', 'other/a')`, "23514"},
		"an empty key": {`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key)
			VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', 'default/')`, "23514"},
	} {
		_, err := db.Pool.Exec(t.Context(), tc.sql)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, name)
		require.Equal(t, tc.code, pg.Code, name)
	}
}

// A client that is stopped while it holds the turn delays a claim, and does not stop it.
func TestClaimOrderedDoesNotNeedItsTurn(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ids := keyed(t, db.Pool, "a")
	require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1870034018, 2)`)
		require.NoError(t, err)
		require.Equal(t, ids, idsOf(claimOrdered(t, newStore(db.Pool, dispatch.Scope{}), orderedAll(4))))
		return nil
	}))
}

// A head that cannot be printed holds back its key, and no other.
func TestClaimOrderedSalvagesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ids := keyed(t, db.Pool, "a", "a", "b")
	_, err := db.Pool.Exec(t.Context(), `SET session_replication_role = replica;
		UPDATE outbox_events SET payload_json = ('[' || repeat('1e131071,', 9000) || '1]')::jsonb WHERE id = '`+ids[0]+`';
		RESET session_replication_role`)
	require.NoError(t, err)
	store := newStore(db.Pool, dispatch.Scope{})
	_, err = store.Claim(t.Context(), orderedAll(100))
	require.Error(t, err)
	rows := claimOrdered(t, store, orderedAll(100))
	require.Equal(t, ids[:1], idsOf(rows))
	require.Error(t, rows[0].Unreadable)
	settle(t, store, dead(rows[0]))
	require.Equal(t, ids[2:], idsOf(claimOrdered(t, store, orderedAll(100))))
}

// Followers of a head that waits fill no window for good: a claim goes on behind what it has seen.
func TestClaimOrderedSaysHowFarItHasSeen(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key, next_attempt_at)
SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', 'default/a',
       now() + CASE WHEN g = 1 THEN interval '1 hour' ELSE interval '0' END
  FROM generate_series(1, 1500) AS g ORDER BY g`)
	require.NoError(t, err)
	ids := keyed(t, db.Pool, "b")
	store := newStore(db.Pool, dispatch.Scope{})
	p := orderedAll(10)
	got, err := store.Claim(t.Context(), p)
	require.NoError(t, err)
	require.Empty(t, got.Rows)
	require.Equal(t, 1000, got.Seen)
	require.False(t, got.Full)
	p.AfterSeq = got.SeenTo
	require.Equal(t, ids, idsOf(claimOrdered(t, store, p)))
}
