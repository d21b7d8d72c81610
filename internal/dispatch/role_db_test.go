package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// The role the grants are made for must suffice for everything a publisher does, and for nothing more.
func TestDispatcherRoleSuffices(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	cfg, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET ROLE outbox_dispatcher`)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	emitOrders(t, db.Pool, 4, nil)
	store := newStore(pool, dispatch.Scope{})
	_, _, err = store.Due(t.Context(), dispatch.ClaimParams{})
	require.NoError(t, err)
	_, err = store.LastSeq(t.Context())
	require.NoError(t, err)
	rows := mustClaim(t, store, claimAll(4))
	_, _, err = store.Held(t.Context())
	require.NoError(t, err)
	got, err := store.Settle(t.Context(), dispatch.Verdicts{
		Published: []dispatch.Published{{Key: rows[0].Key, MessageID: "m"}},
		Failed:    []dispatch.Failed{{Key: rows[1].Key, Error: "no", Delay: time.Second}},
		Dead:      []dispatch.Dead{{Key: rows[2].Key, Reason: outbox.ReasonInvalidPayload, Error: "no"}},
		Released:  []dispatch.Key{rows[3].Key},
	})
	require.NoError(t, err)
	require.Equal(t, 4, got.Len())

	observer := &quiet{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	beat := &dispatch.Heartbeat{DB: pool, Observe: observer, Identity: dispatch.Identity{ID: uuid.NewString(), Host: "here"},
		State: func() dispatch.PublisherState { return dispatch.PublisherState{} }}
	go func() { defer close(done); beat.Run(ctx) }()
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_publishers`).Scan(&n))
		return n == 1
	}, time.Minute, 5*time.Millisecond)
	cancel()
	<-done
	require.NoError(t, observer.first())

	_, err = pool.Exec(t.Context(), `DELETE FROM outbox_events`)
	require.ErrorContains(t, err, "permission denied")
	_, err = pool.Exec(t.Context(), `UPDATE outbox_events SET payload_json = '{}'`)
	require.ErrorContains(t, err, "permission denied")
}
