package outbox

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
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// verifyLicense changes a license and emits it, as the example of package emit does.
func verifyLicense(ctx context.Context, conn *pgx.Conn, licenseID, storeID uuid.UUID) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE licenses SET status = 'verified' WHERE id = $1`, licenseID); err != nil {
			return err
		}
		_, err := packfinderz.Emit(ctx, tx, emit.Event{
			Type:        packfinderz.TypeLicenseStatusChanged,
			AggregateID: licenseID.String(),
			Data:        packfinderz.LicenseStatusChanged{LicenseID: licenseID, StoreID: storeID, Status: packfinderz.LicenseVerified},
			Actor:       &emit.Actor{UserID: "reviewer-7", Role: "admin"},
			// A second verification of the same license emits nothing.
			DedupeKey: "license-verified/" + licenseID.String(),
		})
		return err
	})
}

// The license and its event, both or neither.
func TestAnEventGoesWithItsTransaction(t *testing.T) {
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
	require.Equal(t, 1, count(t, db), "the dedupe key holds")

	err = verifyLicense(ctx, conn.Conn(), license, uuid.Nil)
	require.ErrorIs(t, err, emit.ErrInvalid, "the store is missing")
	require.Equal(t, 1, count(t, db))
}

func TestEveryWayIn(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx := t.Context()
	event := emit.Event{
		Type: packfinderz.TypeMediaUploaded, AggregateID: uuid.NewString(), DedupeKey: "one",
		Data: packfinderz.MediaUploaded{MediaID: uuid.New(), StoreID: uuid.New(), Kind: "photo"},
	}
	var first emit.Result
	require.NoError(t, pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) (err error) {
		first, err = packfinderz.Emit(ctx, tx, event)
		return err
	}))
	require.False(t, first.AlreadyEnqueued)
	already := emit.Result{ID: first.ID, AlreadyEnqueued: true}

	require.NoError(t, pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		results, err := packfinderz.EmitAll(ctx, tx, []emit.Event{event, event})
		require.Equal(t, []emit.Result{already, already}, results)
		return err
	}))

	conn := stdlib.OpenDBFromPool(db.Pool)
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	require.NoError(t, err)
	result, err := packfinderz.EmitSQL(ctx, tx, event)
	require.NoError(t, err)
	require.Equal(t, already, result)
	results, err := packfinderz.EmitAllSQL(ctx, tx, []emit.Event{event})
	require.NoError(t, err)
	require.Equal(t, []emit.Result{already}, results)
	require.NoError(t, tx.Commit())
	require.Equal(t, 1, count(t, db))
}

// Without an outbox the error says what is missing, and a refusal costs nothing: it
// needs no connection at all.
func TestErrors(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	event := emit.Event{Type: packfinderz.TypeMediaUploaded, AggregateID: uuid.NewString(), Data: json.RawMessage(`{}`)}
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := packfinderz.Emit(t.Context(), tx, event)
		return err
	})
	require.ErrorIs(t, err, emit.ErrNotMigrated)

	event.Data = nil
	_, err = packfinderz.Emit(context.Background(), nil, event)
	require.ErrorIs(t, err, emit.ErrInvalid)
}

// The statements of the documentation are run as they are printed there.
func TestTheDocumentedSQLWorks(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	text, err := os.ReadFile("../../docs/emit.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		_, err := db.Pool.Exec(t.Context(), block[1])
		require.NoError(t, err, block[1])
	}
	require.Equal(t, len(blocks), count(t, db))
}

// The emitter of one type takes that type's data, and both kinds of transaction.
func TestTheEmitterOfOneType(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx := t.Context()
	uploaded := emit.For[packfinderz.MediaUploaded](emit.New(packfinderz.Catalogue{}), packfinderz.TypeMediaUploaded)
	media := uuid.New()
	data := packfinderz.MediaUploaded{MediaID: media, StoreID: uuid.New(), Kind: "photo"}
	require.NoError(t, pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		_, err := uploaded.Emit(ctx, tx, media.String(), data)
		return err
	}))
	old := stdlib.OpenDBFromPool(db.Pool)
	defer old.Close()
	tx, err := old.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = uploaded.EmitSQL(ctx, tx, media.String(), data)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, 2, count(t, db))
	_, err = uploaded.EmitSQL(ctx, nil, "no uuid", data)
	require.ErrorIs(t, err, emit.ErrInvalid)
}
