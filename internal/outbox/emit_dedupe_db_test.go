package outbox

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestADedupeKeyIsTakenOnce(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	first := emitCommitted(t, db, goodEvent())
	require.False(t, first.AlreadyEnqueued)
	require.Equal(t, emit.Result{ID: first.ID, AlreadyEnqueued: true}, emitCommitted(t, db, goodEvent()))

	other := goodEvent()
	other.Namespace = "another"
	require.False(t, emitCommitted(t, db, other).AlreadyEnqueued, "keys are per namespace")
	other = goodEvent()
	other.Type, other.AggregateType, other.Data = packfinderz.TypeMediaUploaded, "", []byte(`{}`)
	require.False(t, emitCommitted(t, db, other).AlreadyEnqueued, "keys are per type")
	other = goodEvent()
	other.DedupeKey = ""
	require.False(t, emitCommitted(t, db, other).AlreadyEnqueued, "no key, no dedupe")
	require.False(t, emitCommitted(t, db, other).AlreadyEnqueued)
	require.Equal(t, 5, count(t, db))
}

func TestOneCallMayRepeatAKey(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	free := goodEvent()
	free.DedupeKey = ""
	var results []emit.Result
	require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		var err error
		results, err = dbEmitter().EmitAll(t.Context(), tx, []emit.Event{goodEvent(), free, goodEvent(), free})
		return err
	}))
	require.Len(t, results, 4)
	require.Equal(t, emit.Result{ID: results[0].ID, AlreadyEnqueued: true}, results[2])
	for _, i := range []int{0, 1, 3} {
		require.False(t, results[i].AlreadyEnqueued)
	}
	require.Equal(t, 3, count(t, db))
}

// Two transactions with the same key: the second waits for the first, then takes its
// answer, or its place when the first gave up.
func TestConcurrentDedupe(t *testing.T) {
	t.Parallel()
	for name, firstCommits := range map[string]bool{"the first commits": true, "the first rolls back": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			ctx := t.Context()
			tx, err := db.Pool.Begin(ctx)
			require.NoError(t, err)
			first, err := dbEmitter().Emit(ctx, tx, goodEvent())
			require.NoError(t, err)

			conn, err := db.Pool.Acquire(ctx)
			require.NoError(t, err)
			defer conn.Release()
			type answer struct {
				result emit.Result
				err    error
			}
			answered := make(chan answer, 1)
			go func() {
				var a answer
				a.err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					var err error
					a.result, err = dbEmitter().Emit(ctx, tx, goodEvent())
					return err
				})
				answered <- a
			}()
			waitForLock(t, db, conn.Conn().PgConn().PID())
			if firstCommits {
				require.NoError(t, tx.Commit(ctx))
			} else {
				require.NoError(t, tx.Rollback(ctx))
			}
			second := <-answered
			require.NoError(t, second.err)
			if firstCommits {
				require.Equal(t, emit.Result{ID: first.ID, AlreadyEnqueued: true}, second.result)
			} else {
				require.False(t, second.result.AlreadyEnqueued)
				require.NotEqual(t, first.ID, second.result.ID)
			}
			require.Equal(t, 1, count(t, db))
		})
	}
}

// waitForLock returns once a backend waits for another one's lock.
func waitForLock(t *testing.T, db *outboxtest.Database, pid uint32) {
	t.Helper()
	for {
		var waits bool
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT cardinality(pg_blocking_pids($1)) > 0`, pid).Scan(&waits))
		if waits {
			return
		}
	}
}

// An id of the caller's own makes a repeated call safe without a key.
func TestTheSameIdIsTheSameEvent(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	event := goodEvent()
	event.DedupeKey = ""
	event.ID = uuid.Must(uuid.NewV7())
	require.Equal(t, emit.Result{ID: event.ID, AlreadyEnqueued: false}, emitCommitted(t, db, event))
	require.Equal(t, emit.Result{ID: event.ID, AlreadyEnqueued: true}, emitCommitted(t, db, event))
	require.Equal(t, 1, count(t, db))

	event.AggregateID = uuid.NewString()
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := dbEmitter().Emit(t.Context(), tx, event)
		return err
	})
	require.ErrorContains(t, err, "belongs to another event")
}
