package emit_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

func events(t *testing.T, db *outboxtest.Database) int {
	t.Helper()
	var n int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events`).Scan(&n))
	return n
}

// The example is run as it stands: the license and its event, both or neither.
func TestTheExampleWorks(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx := t.Context()
	_, err := db.Pool.Exec(ctx, `CREATE TABLE licenses (id uuid PRIMARY KEY, status text)`)
	require.NoError(t, err)
	license := uuid.New()
	_, err = db.Pool.Exec(ctx, `INSERT INTO licenses VALUES ($1, 'pending')`, license)
	require.NoError(t, err)
	conn, err := db.Pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()

	for range 2 {
		require.NoError(t, verifyLicense(ctx, conn.Conn(), license, uuid.New()))
	}
	require.Equal(t, 1, events(t, db), "the dedupe key holds")

	err = verifyLicense(ctx, conn.Conn(), license, uuid.Nil)
	require.ErrorIs(t, err, emit.ErrInvalid, "the store is missing")
	require.Equal(t, 1, events(t, db))
}

func TestEveryWayIn(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx := t.Context()
	event := emit.Event{
		Type: emit.TypeMediaUploaded, AggregateID: uuid.New(), DedupeKey: "one",
		Data: emit.MediaUploaded{MediaID: uuid.New(), StoreID: uuid.New(), Kind: "photo"},
	}
	var first emit.Result
	require.NoError(t, pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) (err error) {
		first, err = emit.Emit(ctx, tx, event)
		return err
	}))
	require.False(t, first.AlreadyEnqueued)
	already := emit.Result{ID: first.ID, AlreadyEnqueued: true}

	require.NoError(t, pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		results, err := emit.EmitAll(ctx, tx, []emit.Event{event, event})
		require.Equal(t, []emit.Result{already, already}, results)
		return err
	}))

	conn := stdlib.OpenDBFromPool(db.Pool)
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	require.NoError(t, err)
	result, err := emit.EmitSQL(ctx, tx, event)
	require.NoError(t, err)
	require.Equal(t, already, result)
	results, err := emit.EmitAllSQL(ctx, tx, []emit.Event{event})
	require.NoError(t, err)
	require.Equal(t, []emit.Result{already}, results)
	require.NoError(t, tx.Commit())
	require.Equal(t, 1, events(t, db))
}

// Without an outbox the error says what is missing, and a refusal costs nothing: it
// needs no connection at all.
func TestErrors(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	event := emit.Event{Type: emit.TypeMediaUploaded, AggregateID: uuid.New(), Data: json.RawMessage(`{}`)}
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := emit.Emit(t.Context(), tx, event)
		return err
	})
	require.ErrorIs(t, err, emit.ErrNotMigrated)

	event.Data = nil
	_, err = emit.Emit(context.Background(), nil, event)
	require.ErrorIs(t, err, emit.ErrInvalid)
}

// The statements of the documentation are run as they are printed there.
func TestTheDocumentedSQLWorks(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	text, err := os.ReadFile("../docs/emit.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		_, err := db.Pool.Exec(t.Context(), block[1])
		require.NoError(t, err, block[1])
	}
	require.Equal(t, len(blocks), events(t, db))
}
