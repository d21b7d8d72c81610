package dispatch

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// leaseBundle is a table with ten waiting rows, of seq 1 to 10.
type leaseBundle struct {
	*testing.T
	db *outboxtest.Database
}

func newLeaseBundle(t *testing.T, key string) *leaseBundle {
	t.Helper()
	t.Parallel()
	b := &leaseBundle{t, outboxtest.DB(t)}
	_, err := b.db.Pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key)
SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}', nullif($1, '') FROM generate_series(1, 10)`, key)
	require.NoError(t, err)
	return b
}

// begin opens a transaction as a claim does.
func (b *leaseBundle) begin() pgx.Tx {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.db.URL)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, conn.Close(context.Background())) })
	tx, err := conn.Begin(b.Context())
	require.NoError(b, err)
	_, err = tx.Exec(b.Context(), steerPlanner)
	require.NoError(b, err)
	return tx
}

func (b *leaseBundle) lease(seqs, end string) {
	b.Helper()
	_, err := b.db.Pool.Exec(b.Context(), `INSERT INTO outbox_leases (owner, until, seqs)
		VALUES (gen_random_uuid(), now() + $1::text::interval, $2::text::int8multirange)`, end, seqs)
	require.NoError(b, err)
}

func (b *leaseBundle) one(q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, sql string, args ...any) (text string) {
	b.Helper()
	require.NoError(b, q.QueryRow(b.Context(), sql, args...).Scan(&text))
	return text
}

// locked are the rows that a claim locks which began before the leases of others were committed.
func (b *leaseBundle) locked(tx pgx.Tx, settings map[string]string) {
	b.Helper()
	for name, value := range settings {
		_, err := tx.Exec(b.Context(), `SELECT set_config($1, $2, true)`, name, value)
		require.NoError(b, err)
	}
}

const leasesOfAll = `SELECT coalesce(string_agg(seqs::text, ' ' ORDER BY id), '') FROM outbox_leases`

// Whatever a claim has locked, it leases what no lease names by then: the statement that locked had an older snapshot. A lease
// that has ended still names its rows, until a claim has deleted it and charged them.
func TestALeaseIsGivenForWhatNoLeaseNames(t *testing.T) {
	b := newLeaseBundle(t, "")
	b.lease("{[2,4),[7,8)}", "1 minute")
	b.lease("{[5,6)}", "-1 minute")
	tx := b.begin()
	b.locked(tx, map[string]string{lockedRows: "{[1,9)}"})
	_, err := tx.Exec(t.Context(), leaseSQL, uuid.NewString(), 1000, int64(1000))
	require.NoError(t, err)
	require.Equal(t, "{[2,4),[7,8)} {[5,6)} {[1,2),[4,5),[6,7),[8,9)}", b.one(tx, leasesOfAll))

	none := b.begin()
	b.locked(none, map[string]string{lockedRows: "{[2,4)}"})
	tag, err := none.Exec(t.Context(), leaseSQL, uuid.NewString(), 1000, int64(1000))
	require.NoError(t, err)
	require.Zero(t, tag.RowsAffected(), "no lease of nothing")
}

// A run is leased up to the first row that another has, and nothing behind it.
func TestARunIsLeasedUpToWhatAnotherHas(t *testing.T) {
	b := newLeaseBundle(t, "default/a")
	b.lease("{[3,4),[6,7)}", "1 minute")
	tx := b.begin()
	b.locked(tx, map[string]string{lockedRows: "{1,2,3,4,5,6,7,8}", lockedRuns: "{1,1,1,1,5,6,6,8}"})
	_, err := tx.Exec(t.Context(), leaseOrderedSQL, uuid.NewString(), 1000, int64(1000))
	require.NoError(t, err)
	require.Equal(t, "{[3,4),[6,7)} {[1,3),[5,6),[8,9)}", b.one(tx, leasesOfAll))
}

// What a claim has seen may change before it locks it. A head that died or was published by then is no part of a run, and
// nothing behind it is.
func TestARunHasNothingThatChangedBeforeItsLock(t *testing.T) {
	for name, change := range map[string]string{"died": "dead_at = now()", "published": "published_at = now()", "waits": "next_attempt_at = now() + interval '1 hour'"} {
		t.Run(name, func(t *testing.T) {
			b := newLeaseBundle(t, "default/a")
			gate, claim := b.begin(), b.begin()
			const wait = `SELECT pg_advisory_xact_lock(7) OFFSET 0`
			_, err := gate.Exec(t.Context(), wait)
			require.NoError(t, err)
			locked := make(chan string)
			go func() {
				var text string
				store := &SQLStore{}
				lock := store.lockRuns(ClaimParams{Limit: 10, Window: 100}, 10, nil)
				row := claim.QueryRow(context.WithoutCancel(t.Context()),
					strings.Replace(lock.sql, "FROM keys AS k", "FROM ("+wait+") AS gate CROSS JOIN keys AS k", 1), lock.args...)
				if err := row.Scan(&text, nil, nil, nil, nil); err != nil {
					text = err.Error()
				}
				locked <- text
			}()
			require.Eventually(t, func() bool {
				return b.one(b.db.Pool, `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database =
					(SELECT oid FROM pg_database WHERE datname = current_database())`) == "1"
			}, time.Minute, time.Millisecond, "it has seen the rows, and locks none yet")
			_, err = b.db.Pool.Exec(t.Context(), `UPDATE outbox_events SET `+change+` WHERE seq = 1`)
			require.NoError(t, err)
			require.NoError(t, gate.Commit(t.Context()))
			require.Equal(t, "{}", <-locked)
		})
	}
}

const attemptsOfAll = `SELECT string_agg(attempt_count::text, '' ORDER BY seq) FROM outbox_events`

// An expired lease is ended once, by one of two claims that meet on it, and its rows are charged once.
func TestAnExpiredLeaseIsEndedOnce(t *testing.T) {
	b := newLeaseBundle(t, "")
	b.lease("{[2,5)}", "-1 minute")
	first, second := b.begin(), b.begin()
	for _, tx := range []pgx.Tx{first, second} {
		_, err := tx.Exec(t.Context(), expiredSQL)
		require.NoError(t, err)
	}
	require.Equal(t, "{[2,5)}", b.one(second, leasesOfAll), "the other has it")
	require.Empty(t, b.one(first, leasesOfAll))
	require.NoError(t, first.Commit(t.Context()))
	require.NoError(t, second.Commit(t.Context()))
	require.Equal(t, "0111000000", b.one(b.db.Pool, attemptsOfAll))
}

// endsBeside ends expired leases while the holder has its lock, which leaves what is wanted, and again when it has let go.
func (b *leaseBundle) endsBeside(holder pgx.Tx, want string) {
	b.Helper()
	for _, want := range []string{want, " 0111000000"} {
		_, err := b.db.Pool.Exec(b.Context(), expiredSQL)
		require.NoError(b, err)
		require.Equal(b, want, b.one(b.db.Pool, leasesOfAll)+" "+b.one(b.db.Pool, attemptsOfAll))
		_ = holder.Rollback(b.Context())
	}
}

// A row that another session holds is neither waited for nor forgotten: it stays in the lease, and is charged later.
func TestAnExpiredLeaseKeepsWhatIsHeld(t *testing.T) {
	b := newLeaseBundle(t, "")
	b.lease("{[2,5)}", "-1 minute")
	holder := b.begin()
	_, err := holder.Exec(t.Context(), `SELECT FROM outbox_events WHERE seq = 3 FOR UPDATE`)
	require.NoError(t, err)
	b.endsBeside(holder, "{[3,4)} 0101000000")
}

// A lease that is being settled is not ended, whatever the clock says.
func TestALeaseThatIsSettledIsNotEnded(t *testing.T) {
	b := newLeaseBundle(t, "")
	b.lease("{[2,5)}", "-1 minute")
	settle := b.begin()
	_, err := settle.Exec(t.Context(), fenceSQL, b.one(settle, `SELECT owner::text FROM outbox_leases`), "{"+b.one(settle, `SELECT id::text FROM outbox_leases`)+"}")
	require.NoError(t, err)
	b.endsBeside(settle, "{[2,5)} 0000000000")
}

// Of an ordering key the first row of the lease is charged, whatever else is open.
func TestAnExpiredRunIsChargedOnce(t *testing.T) {
	b := newLeaseBundle(t, "default/a")
	b.lease("{[1,4)}", "-1 minute")
	_, err := b.db.Pool.Exec(t.Context(), `UPDATE outbox_events SET published_at = now() WHERE seq = 1`)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(t.Context(), expiredSQL)
	require.NoError(t, err)
	require.Equal(t, " 0100000000", b.one(b.db.Pool, leasesOfAll)+" "+b.one(b.db.Pool, attemptsOfAll))
}

// A claim reads no row that a lease names, wherever the lease ends and whatever lies in between, and takes what is free
// in the order of seq.
func TestAClaimWalksAlongTheGapsBetweenLeases(t *testing.T) {
	for leases, want := range map[string]struct {
		after, through int64
		free           string
	}{
		"":                            {0, math.MaxInt64, "{[1,11)}"},
		"{[1,4)} {[6,8)}":             {0, math.MaxInt64, "{[4,6),[8,11)}"},
		"{[6,8)} {[1,4),[10,11)}":     {0, math.MaxInt64, "{[4,6),[8,10)}"},
		"{[1,6)} {[8,9)}":             {3, math.MaxInt64, "{[6,8),[9,11)}"},
		"{[1,2),[6,8)} {[3,5)}":       {4, math.MaxInt64, "{[5,6),[8,11)}"},
		"{[1,3),[9,10)}":              {4, math.MaxInt64, "{[5,9),[10,11)}"},
		"{[4,5)} {[5,6)} ":            {3, math.MaxInt64, "{[6,11)}"},
		"{[2,3)} {[5,100)}":           {3, math.MaxInt64, "{[4,5)}"},
		"{[1,11)}":                    {0, math.MaxInt64, "{}"},
		"{[3,4)} {[9,10)} {[11,200)}": {1, 8, "{[2,3),[4,9)}"},
	} {
		t.Run(leases, func(t *testing.T) {
			b := newLeaseBundle(t, "")
			for seqs := range strings.FieldsSeq(leases) {
				b.lease(seqs, "1 minute")
			}
			tx := b.begin()
			args := []any{want.after, "", "", []string{}, []string{}, want.through, 100}
			_, err := tx.Exec(t.Context(), lockSQL, args...)
			require.NoError(t, err)
			require.Equal(t, want.free, b.one(tx, `SELECT current_setting('`+lockedRows+`')`))
			rows, err := tx.Query(t.Context(), `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) `+lockSQL, args...)
			require.NoError(t, err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.NotRegexp(t, `seq_claim_idx(?:.|\n)*Rows Removed by Filter`, strings.Join(lines, "\n"))
		})
	}
}

// What a publisher with full hands leaves behind is freed by one claim, by work that grows with its rows and not with their square.
func TestManyExpiredLeasesAreEndedTogether(t *testing.T) {
	b := newLeaseBundle(t, "")
	_, err := b.db.Pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}' FROM generate_series(1, 4990)`)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(t.Context(), `
INSERT INTO outbox_leases (owner, until, seqs)
SELECT gen_random_uuid(), now() - interval '1 second', range_agg(int8range(seq, seq, '[]')) FROM outbox_events GROUP BY seq % 10`)
	require.NoError(t, err)
	tx := b.begin()
	rows, err := tx.Query(t.Context(), `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) `+expiredSQL)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotRegexp(t, `Rows Removed by Join Filter: \d{4}`, fmt.Sprint(lines))
	require.Empty(t, b.one(tx, leasesOfAll))
	require.Equal(t, "5000", b.one(tx, `SELECT sum(attempt_count)::text FROM outbox_events`))
}
