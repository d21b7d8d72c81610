package migrate_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// One of many deliveries at once is the first; what a transaction that was rolled back has said is forgotten.
func TestFirstTime(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	id := uuid.New()
	tx, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	var first bool
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT outbox_first_time('mailer', $1)`, id).Scan(&first))
	require.True(t, first)
	require.NoError(t, tx.Rollback(t.Context()))

	var effects atomic.Int64
	deliveries, ctx := errgroup.WithContext(t.Context())
	for range 6 {
		deliveries.Go(func() error {
			return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
				var first bool
				if err := tx.QueryRow(ctx, `SELECT outbox_first_time('mailer', $1)`, id).Scan(&first); err != nil {
					return err
				}
				if first {
					effects.Add(1)
				}
				return nil
			})
		})
	}
	require.NoError(t, deliveries.Wait())
	require.Equal(t, int64(1), effects.Load())
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT outbox_first_time('audit', $1)`, id).Scan(&first))
	require.True(t, first, "another consumer")
}

// The trap that docs/consumers.md warns of: in the WHERE of an UPDATE that waits for a row's lock the question is asked
// again, the answer is no, and the effect is lost although it was the first time.
func TestFirstTimeInTheWhereOfAnUpdate(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `CREATE TABLE accounts (id int PRIMARY KEY, n int NOT NULL); INSERT INTO accounts VALUES (1, 0)`)
	require.NoError(t, err)
	for _, tc := range []struct {
		name   string
		effect func(ctx context.Context, tx pgx.Tx, id uuid.UUID) (int64, error)
		want   int64
	}{
		{"in the WHERE", func(ctx context.Context, tx pgx.Tx, id uuid.UUID) (int64, error) {
			tag, err := tx.Exec(ctx, `UPDATE accounts SET n = n + 1 WHERE id = 1 AND outbox_first_time('mailer', $1)`, id)
			return tag.RowsAffected(), err
		}, 0},
		{"as a statement of its own", func(ctx context.Context, tx pgx.Tx, id uuid.UUID) (int64, error) {
			var first bool
			if err := tx.QueryRow(ctx, `SELECT outbox_first_time('mailer', $1)`, id).Scan(&first); err != nil || !first {
				return 0, err
			}
			tag, err := tx.Exec(ctx, `UPDATE accounts SET n = n + 1 WHERE id = 1`)
			return tag.RowsAffected(), err
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			blocker, err := db.Pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = blocker.Exec(t.Context(), `UPDATE accounts SET n = n + 1 WHERE id = 1`)
			require.NoError(t, err)
			changed := make(chan int64, 1)
			var waiting errgroup.Group
			waiting.Go(func() error {
				return pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
					n, err := tc.effect(t.Context(), tx, uuid.New())
					changed <- n
					return err
				})
			})
			require.Eventually(t, func() bool {
				var blocked bool
				err := db.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND transactionid IS NOT NULL)`).Scan(&blocked)
				return err == nil && blocked
			}, time.Minute, 5*time.Millisecond)
			require.NoError(t, blocker.Commit(t.Context()))
			require.NoError(t, waiting.Wait())
			require.Equal(t, tc.want, <-changed)
		})
	}
}
