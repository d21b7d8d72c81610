package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// dbEmitter has a fixed clock, so that the same event has the same size each time.
func dbEmitter() *emit.Emitter {
	emitter := emit.New(catalogue.PackFinderz())
	emitter.Now = func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }
	return emitter
}

func emitCommitted(t *testing.T, db *outboxtest.Database, p emit.Event) emit.Result {
	t.Helper()
	var result emit.Result
	require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		var err error
		result, err = dbEmitter().Emit(t.Context(), tx, p)
		return err
	}))
	return result
}

func count(t *testing.T, db *outboxtest.Database) int {
	t.Helper()
	var n int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events`).Scan(&n))
	return n
}

// turns counts how often a connection stops sending and gets an answer. A read may have begun before: pgx reads in the
// background when a write takes long.
type turns struct {
	net.Conn
	wrote atomic.Bool
	n     *atomic.Int64
}

func (c *turns) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *turns) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.wrote.Swap(false) {
		c.n.Add(1)
	}
	return n, err
}

func countingPool(t *testing.T, db *outboxtest.Database, mode pgx.QueryExecMode) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = mode
	n := &atomic.Int64{}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &turns{Conn: conn, n: n}, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, n
}

func TestEmitTakesOneRoundTripInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			pool, n := countingPool(t, db, mode)
			require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				for range 2 {
					before := n.Load()
					result, err := dbEmitter().Emit(t.Context(), tx, goodEvent())
					require.NoError(t, err)
					require.Equal(t, int64(1), n.Load()-before, "round trips of one event")
					require.NotEqual(t, uuid.Nil, result.ID)

					before = n.Load()
					event := goodEvent()
					event.DedupeKey = ""
					_, err = dbEmitter().EmitAll(t.Context(), tx, []emit.Event{event, event, event})
					require.NoError(t, err)
					require.Equal(t, int64(1), n.Load()-before, "round trips of three events")
				}
				return nil
			}))
			require.Equal(t, 7, count(t, db), "one deduplicated, six not")
		})
	}
}

func TestEmitSQLWithDatabaseSQL(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			config, err := pgx.ParseConfig(db.URL)
			require.NoError(t, err)
			config.DefaultQueryExecMode = mode
			conn := stdlib.OpenDB(*config)
			defer conn.Close()

			tx, err := conn.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			fresh, err := dbEmitter().EmitSQL(t.Context(), tx, goodEvent())
			require.NoError(t, err)
			require.False(t, fresh.AlreadyEnqueued)
			again, err := dbEmitter().EmitAllSQL(t.Context(), tx, []emit.Event{goodEvent(), goodEvent()})
			require.NoError(t, err)
			require.Equal(t, []emit.Result{{ID: fresh.ID, AlreadyEnqueued: true}, {ID: fresh.ID, AlreadyEnqueued: true}}, again)

			bad := goodEvent()
			bad.Data = nil
			_, err = dbEmitter().EmitSQL(t.Context(), tx, bad)
			require.ErrorIs(t, err, emit.ErrInvalid)
			require.NoError(t, tx.Commit(), "a refused event leaves the transaction alone")
			require.Equal(t, 1, count(t, db))
		})
	}
}

func TestNothingIsEmittedThatDoesNotCommit(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx := t.Context()
	tx, err := db.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = dbEmitter().Emit(ctx, tx, goodEvent())
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(ctx))
	require.Zero(t, count(t, db))

	event := goodEvent()
	event.DedupeKey = ""
	require.NoError(t, pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		savepoint, err := tx.Begin(ctx)
		require.NoError(t, err)
		_, err = dbEmitter().Emit(ctx, savepoint, event)
		require.NoError(t, err)
		require.NoError(t, savepoint.Rollback(ctx))
		_, err = dbEmitter().Emit(ctx, tx, event)
		return err
	}))
	require.Equal(t, 1, count(t, db))
}

func TestARefusedEventDoesNotHarmTheTransaction(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		bad := goodEvent()
		bad.Data = []byte(`{"orderId":"\ud800"}`)
		_, err := dbEmitter().EmitAll(t.Context(), tx, []emit.Event{goodEvent(), bad})
		var invalid *emit.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, 1, invalid.Index)
		require.ErrorContains(t, err, "event 2: invalid event: data.orderId holds half of a surrogate pair")
		_, err = dbEmitter().Emit(t.Context(), tx, goodEvent())
		return err
	}))
	require.Equal(t, 1, count(t, db), "of the refused call nothing was written")
}

func TestEventsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	events := make([]emit.Event, 2*500+7)
	for i := range events {
		events[i] = goodEvent()
		events[i].DedupeKey = fmt.Sprintf("%s/%d", testTenant, i)
	}
	var results []emit.Result
	require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		var err error
		results, err = dbEmitter().EmitAll(t.Context(), tx, events)
		return err
	}))
	rows, err := db.Pool.Query(t.Context(), `SELECT id, dedupe_key FROM outbox_events ORDER BY seq`)
	require.NoError(t, err)
	type row struct {
		ID  uuid.UUID
		Key string
	}
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	require.Len(t, stored, len(events))
	for i := range events {
		require.Equal(t, row{results[i].ID, events[i].DedupeKey}, stored[i])
	}
}

func TestEmittingNothing(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		results, err := dbEmitter().EmitAll(t.Context(), tx, nil)
		require.Empty(t, results)
		return err
	}))
}

func TestEmitWithoutAnOutboxSaysSo(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := dbEmitter().Emit(t.Context(), tx, goodEvent())
		return err
	})
	require.ErrorIs(t, err, emit.ErrNotMigrated)

	conn := stdlib.OpenDBFromPool(db.Pool)
	defer conn.Close()
	tx, err := conn.BeginTx(t.Context(), &sql.TxOptions{})
	require.NoError(t, err)
	_, err = dbEmitter().EmitSQL(t.Context(), tx, goodEvent())
	require.ErrorIs(t, err, emit.ErrNotMigrated)
	require.NoError(t, tx.Rollback())
}

// A producer reads what keeps its event out, not only that something does.
func TestEmitNamesWhatKeepsTheRowOut(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `ALTER TABLE outbox_events ADD UNIQUE (aggregate_id)`)
	require.NoError(t, err)
	event := goodEvent()
	event.DedupeKey = ""
	emitCommitted(t, db, event)
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := dbEmitter().Emit(t.Context(), tx, event)
		return err
	})
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "OX008", pg.Code)
	require.ErrorContains(t, err, "kept out by unique index outbox_events_aggregate_id_key")
}

// The emitter's role can do this and nothing else, whatever isolation its
// transactions have.
func TestTheEmitterRoleIsEnough(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx := t.Context()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		tx, err := db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		_, err = tx.Exec(ctx, `SET LOCAL ROLE outbox_emitter`)
		require.NoError(t, err)
		event := goodEvent()
		event.DedupeKey = testTenant + "/" + string(level)
		fresh, err := dbEmitter().Emit(ctx, tx, event)
		require.NoError(t, err)
		again, err := dbEmitter().Emit(ctx, tx, event)
		require.NoError(t, err)
		require.Equal(t, emit.Result{ID: fresh.ID, AlreadyEnqueued: true}, again)
		require.NoError(t, tx.Commit(ctx))
	}
	require.Equal(t, 3, count(t, db))
}
