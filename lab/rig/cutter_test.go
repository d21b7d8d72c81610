package rig_test

import (
	"math/rand/v2"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/lab/rig"
)

func TestMain(m *testing.M) {
	outboxtest.Main(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// What is cut is the answer: the transaction itself has happened.
func TestACutCommitIsCommitted(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	_, err := db.Pool.Exec(t.Context(), `CREATE TABLE kept (share float8)`)
	require.NoError(t, err)
	target, err := url.Parse(db.URL)
	require.NoError(t, err)
	for share, cuts := range map[float64]int{0: 0, 1: 1} {
		cutter, err := rig.NewCutter(target.Host, share, rand.New(rand.NewPCG(1, 1)))
		require.NoError(t, err)
		through := *target
		through.Host = cutter.Addr()
		conn, err := pgx.Connect(t.Context(), through.String())
		require.NoError(t, err)
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `INSERT INTO kept VALUES ($1)`, share)
		require.NoError(t, err)
		err = tx.Commit(t.Context())
		require.Equal(t, share == 1, err != nil, "share %v: %v", share, err)
		require.Equal(t, share == 1, conn.IsClosed())
		require.Equal(t, cuts, cutter.Close())
		require.GreaterOrEqual(t, cutter.RoundTrips(), int64(3), "connect, begin, insert")
		var n int
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM kept WHERE share = $1`, share).Scan(&n))
		require.Equal(t, 1, n, "share %v", share)
	}
}
