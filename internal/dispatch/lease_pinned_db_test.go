package dispatch

import (
	"context"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// buffersOf is how many pages a statement touches.
func (b *leaseBundle) buffersOf(tx pgx.Tx, sql string, args ...any) int {
	b.Helper()
	rows, err := tx.Query(b.Context(), `EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) `+sql, args...)
	require.NoError(b, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b, err)
	// The first line with buffers is the whole statement's, and counts those of its parts.
	found := regexp.MustCompile(`Buffers: shared (?:hit=(\d+))?(?: ?read=(\d+))?`).FindStringSubmatch(strings.Join(lines, "\n"))
	require.NotNil(b, found, lines)
	hit, _ := strconv.Atoi(found[1])
	read, _ := strconv.Atoi(found[2])
	return hit + read
}

// A transaction that is left open keeps vacuum from removing leases that are over. A claim that keeps to its hint meets
// none of them, whatever their number; a sweep walks over them once, when it looks for leases to end.
func TestAClaimDoesNotWalkOverLeasesThatAreOver(t *testing.T) {
	b := newLeaseBundle(t, "")
	pin, err := b.db.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	t.Cleanup(func() { _ = pin.Rollback(context.Background()) })
	require.Equal(t, "0", b.one(pin, `SELECT count(*)::text FROM outbox_leases`), "its snapshot is taken")
	const lease = `INSERT INTO outbox_leases (owner, until, seqs)
		SELECT gen_random_uuid(), now() + interval '1 minute', int8multirange(int8range(-i, -i, '[]')) FROM generate_series(1, 4000) AS i`
	for _, sql := range []string{lease, `DELETE FROM outbox_leases`, `VACUUM outbox_leases`} {
		_, err := b.db.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
		if sql == lease {
			continue
		}
		tx := b.begin()
		require.Less(t, b.buffersOf(tx, lockSQL, int64(5), "", "", []string{}, []string{}, int64(math.MaxInt64), 3), 100, sql)
		require.Less(t, b.buffersOf(tx, leaseSQL, uuid.NewString(), 1000, int64(1000)), 100, sql)
		require.Equal(t, "{[6,9)}", b.one(tx, leasesOfAll))
		require.NoError(t, tx.Rollback(t.Context()))
		again := b.begin()
		b.locked(again, map[string]string{lockedRows: "{10}", lockedRuns: "{10}"})
		require.Less(t, b.buffersOf(again, leaseOrderedSQL, uuid.NewString(), 1000, int64(1000)), 100, sql)
		require.NoError(t, again.Rollback(t.Context()))
		require.Greater(t, b.buffersOf(b.begin(), expiredSQL), 100, "they are still there")
	}
}
