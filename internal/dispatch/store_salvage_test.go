package dispatch_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// latin1 is a pool whose encoding lacks most characters: a cheap way to rows
// that the database cannot print.
func latin1(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config()
	cfg.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1"
	narrow, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(narrow.Close)
	return narrow
}

// unreadable is a store that cannot read some of n rows, and the rows' ids.
func unreadable(t *testing.T, pool *pgxpool.Pool, n int, bad ...int) (*dispatch.SQLStore, []string) {
	t.Helper()
	ids := emitOrders(t, pool, n, func(i int, p *emit.Event) {
		if slices.Contains(bad, i) {
			p.Headers = map[string]string{"price": "5 €"}
		}
	})
	return newStore(latin1(t, pool), dispatch.Scope{}), ids
}

func TestOneUnreadableRowDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	s, ids := unreadable(t, pool, 8, 2, 5)

	_, err := s.Claim(t.Context(), claimAll(100))
	require.ErrorContains(t, err, "22P05")

	var got []string
	for _, want := range []struct {
		rows int
		bad  string
	}{{3, ids[2]}, {3, ids[5]}, {2, ""}} {
		rows := mustClaim(t, s, claimAll(100))
		require.Len(t, rows, want.rows, "a salvage ends with the row that cannot be read")
		for i, r := range rows {
			got = append(got, r.ID)
			if r.ID == want.bad {
				require.ErrorContains(t, r.Unreadable, "cannot print this row")
				require.Equal(t, len(rows)-1, i)
				continue
			}
			require.NoError(t, r.Unreadable)
			require.Contains(t, string(r.Payload), r.ID)
		}
	}
	require.Equal(t, ids, got, "each once, in order")

	require.Empty(t, mustClaim(t, s, claimAll(100)))
	more := emitOrders(t, pool, 150, nil)
	require.Len(t, mustClaim(t, s, claimAll(200)), len(more), "back to claims without a bound")
}

// Neither another claim that goes well nor a salvage that has not come so far
// says that the row is gone.
func TestASuspectIsLookedForUntilItIsFound(t *testing.T) {
	t.Parallel()
	s, ids := unreadable(t, outboxtest.DB(t).Pool, 130, 120)
	_, err := s.Claim(t.Context(), claimAll(1000))
	require.Error(t, err)

	behind := claimAll(1000)
	behind.AfterSeq = 1 << 40
	require.Empty(t, mustClaim(t, s, behind))
	require.Len(t, mustClaim(t, s, claimAll(1000)), 100)
	rows := mustClaim(t, s, claimAll(1000))
	require.Equal(t, ids[120], rows[len(rows)-1].ID)
	require.Error(t, rows[len(rows)-1].Unreadable)
	require.Len(t, mustClaim(t, s, claimAll(1000)), 9)
}

func TestSalvageKeepsToItsLimits(t *testing.T) {
	t.Parallel()
	s, ids := unreadable(t, outboxtest.DB(t).Pool, 8, 7)
	_, err := s.Claim(t.Context(), claimAll(100))
	require.Error(t, err)

	p := claimAll(100)
	p.MaxBytes = 1
	first := mustClaim(t, s, p)
	require.Len(t, first, 1, "one row is always taken")
	require.Equal(t, ids[0], first[0].ID)
}

func TestARowOfAllTimeIsClaimed(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	emitOrders(t, pool, 1, nil)
	for _, when := range []string{"infinity", "-infinity"} {
		_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at)
SELECT gen_random_uuid(), event_type, aggregate_type, aggregate_id, payload_json, $1::text::timestamptz FROM outbox_events LIMIT 1`, when)
		require.NoError(t, err)
	}
	require.Len(t, mustClaim(t, newStore(pool, dispatch.Scope{}), claimAll(10)), 3)
}
