package dispatch

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A lease whose events are all settled goes, also when they are not next to each other and the planner would look for it in
// the index of seqs: that index holds a multirange without its gaps, and finds none that is contained in one with gaps.
func TestSettledLeasesGoOnAnyPlan(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx := t.Context()
	conn, err := db.Pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	for _, sql := range []string{`ALTER TABLE outbox_leases DROP CONSTRAINT outbox_leases_pkey`, `SET enable_seqscan = off`} {
		_, err = conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	owner := uuid.NewString()
	var lease int64
	require.NoError(t, conn.QueryRow(ctx, `INSERT INTO outbox_leases (owner, until, seqs)
		VALUES ($1::text::uuid, now() + interval '1 min', '{[1,2),[5,6)}') RETURNING id`, owner).Scan(&lease))
	_, err = conn.Exec(ctx, shrinkSQL, owner, []int64{lease, lease}, []int64{1, 5}, []int64{1, 5})
	require.NoError(t, err)
	var left int
	require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM outbox_leases`).Scan(&left))
	require.Zero(t, left)
	_, err = conn.Exec(ctx, `RESET enable_seqscan`)
	require.NoError(t, err)
}
