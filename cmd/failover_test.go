package cmd_test

import (
	"context"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/poolertest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// failoverRig is a publisher on a database with a replica, and a producer that emits event after event.
type failoverRig struct {
	*publishRig
	primary, standby *devstack.Postgres
	follower         *pgxpool.Pool
	// acked are the events whose commit was acknowledged.
	acked []string
}

func newFailoverRig(t *testing.T) *failoverRig {
	t.Helper()
	primary, standby, db := outboxtest.Replicated(t)
	r := &failoverRig{publishRig: publishRigOn(t, db), primary: primary, standby: standby, follower: outboxtest.Pool(t, standby.URL(db.Name))}
	eventually(t, "the replica follows", func() bool {
		return r.count(`SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'`) == 1
	})
	return r
}

// emitOne commits an event and remembers it when the commit was acknowledged.
func (r *failoverRig) emitOne(ctx context.Context) {
	var id string
	err := pgx.BeginFunc(ctx, r.db.Pool, func(tx pgx.Tx) error {
		done, err := emit.New(registry.New()).Emit(ctx, tx, emit.Event{Type: "order_created", AggregateID: uuid.NewString(),
			Data: map[string]any{"checkoutGroupId": uuid.New(), "vendorOrderIds": []uuid.UUID{uuid.New()}}})
		id = done.ID.String()
		return err
	})
	if err == nil {
		r.acked = append(r.acked, id)
	}
}

func (r *failoverRig) emitUntil(n int) {
	r.t.Helper()
	eventuallyFast(r.t, "the producer gets through", func() bool {
		r.emitOne(r.t.Context())
		return len(r.acked) >= n
	})
}

// eventuallyFast is eventually without a pause between two tries.
func eventuallyFast(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rigTimeout)
	defer cancel()
	for !holds() {
		require.NoError(t, ctx.Err(), what)
	}
}

// synchronous makes commits wait for the replica.
func (r *failoverRig) synchronous() {
	r.t.Helper()
	for _, statement := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} {
		_, err := r.db.Pool.Exec(r.t.Context(), statement)
		require.NoError(r.t, err)
	}
	eventually(r.t, "the replica is synchronous", func() bool {
		return r.count(`SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
}

// promote ends the primary as a crash does and makes the replica the primary.
func (r *failoverRig) promote() {
	r.t.Helper()
	require.NoError(r.t, r.primary.Kill())
	_, err := r.follower.Exec(r.t.Context(), `SELECT pg_promote()`)
	require.NoError(r.t, err)
}

// outcome counts what became of acknowledged events: lost are not in the database that is left, twice were stored by the broker
// more than once, unheard of never. It waits until nothing is left to publish.
func (r *failoverRig) outcome() (lost, twice, unheard int) {
	r.t.Helper()
	eventually(r.t, "nothing is left to publish", func() bool {
		return r.count(`SELECT count(*) FROM outbox_events WHERE published_at IS NULL`) == 0
	})
	lost = len(r.acked) - r.count(`SELECT count(*) FROM outbox_events WHERE id::text = ANY($1)`, r.acked)
	stored := r.stored()
	for _, id := range r.acked {
		if stored[id] > 1 {
			twice++
		}
		if stored[id] == 0 {
			unheard++
		}
	}
	return lost, twice, unheard
}

// With synchronous replication nothing that was acknowledged is lost when the replica is promoted while events flow: neither
// events nor, but for what was in flight, the marks that they are published. Publisher and producer find the new primary by
// themselves.
func TestSynchronousFailoverLosesNothing(t *testing.T) {
	t.Parallel()
	r := newFailoverRig(t)
	r.synchronous()
	p := r.start()
	r.emitUntil(200)
	r.promote()
	r.emitUntil(400)
	lost, twice, unheard := r.outcome()
	t.Logf("synchronous: %d acknowledged, %d lost, %d stored twice by the broker", len(r.acked), lost, twice)
	require.Zero(t, lost)
	require.Zero(t, unheard)
	p.end()
}

// The same behind a transaction-mode pooler, which is led to the new primary as Patroni's callbacks do.
func TestSynchronousFailoverBehindAPooler(t *testing.T) {
	t.Parallel()
	if poolertest.Program() == "" {
		t.Skip("pgbouncer is not installed")
	}
	r := newFailoverRig(t)
	r.synchronous()
	pooler, err := poolertest.Start(t.Context(), r.primary, r.db.Name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pooler.Stop()) })
	config, err := pgxpool.ParseConfig(pooler.URL(r.primary))
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	r.db = &outboxtest.Database{Name: r.db.Name, URL: pooler.URL(r.primary), Pool: pool}

	p := r.start("--exec-mode", "exec")
	r.emitUntil(200)
	r.promote()
	require.NoError(t, pooler.Point(r.standby))
	r.emitUntil(400)
	lost, twice, unheard := r.outcome()
	t.Logf("behind a pooler: %d acknowledged, %d lost, %d stored twice by the broker", len(r.acked), lost, twice)
	require.Zero(t, lost)
	require.Zero(t, unheard)
	p.end()
}

// With asynchronous replication the new primary lacks what had not reached it: events that were emitted then are gone although
// the broker has them, and what was published then is published again. The replica's receiver stands still for exactly known
// events here.
func TestAsynchronousFailoverIsCounted(t *testing.T) {
	t.Parallel()
	r := newFailoverRig(t)
	r.emitUntil(50) // they wait: no publisher runs yet
	eventually(t, "the replica has them", func() bool {
		var n int
		require.NoError(t, r.follower.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events`).Scan(&n))
		return n == 50
	})
	var receiver int
	require.NoError(t, r.follower.QueryRow(t.Context(), `SELECT pid FROM pg_stat_wal_receiver`).Scan(&receiver))
	require.NoError(t, syscall.Kill(receiver, syscall.SIGSTOP))
	p := r.start()
	r.emitUntil(80)
	r.settled(80)
	require.NoError(t, r.primary.Kill())
	require.NoError(t, syscall.Kill(receiver, syscall.SIGKILL))
	eventually(t, "the replica, which starts again without its receiver, is promoted", func() bool {
		var primary bool
		err := r.follower.QueryRow(t.Context(), `SELECT CASE WHEN pg_is_in_recovery() THEN pg_promote() ELSE true END`).Scan(&primary)
		return err == nil && primary
	})
	r.emitUntil(100)
	lost, twice, unheard := r.outcome()
	t.Logf("asynchronous: %d acknowledged, %d lost, %d stored twice by the broker", len(r.acked), lost, twice)
	require.Equal(t, 30, lost, "what was emitted while the replica stood still")
	require.Equal(t, 50, twice, "what was published while it stood still")
	require.Zero(t, unheard)
	p.end()
}
