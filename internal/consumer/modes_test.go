package consumer_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// Behind a pooler statements cannot be prepared, and then the client has to write arrays of ids without asking the server
// for their types.
func TestBatchesInEveryExecMode(t *testing.T) {
	db := outboxtest.DB(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			cfg, err := pgxpool.ParseConfig(db.URL)
			require.NoError(t, err)
			cfg.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			defer pool.Close()
			require.NoError(t, notifications.CreateTable(t.Context(), pool))
			e := consume.Event{ID: uuid.New(), Body: []byte(`{"version": 1, "eventId": "` + uuid.NewString() + `", "data":
				{"licenseId": "` + uuid.NewString() + `", "storeId": "` + uuid.NewString() + `", "status": "verified"}}`)}
			batch := consume.NewBatch(pool, "c", consume.BatchOptions{}, notifications.Write)
			for _, fresh := range []bool{true, false} {
				applied, err := batch.Once(context.Background(), e)
				require.NoError(t, err)
				require.Equal(t, fresh, applied)
			}
		})
	}
}
