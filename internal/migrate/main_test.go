package migrate_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		os.Exit(migrateAsChild(url))
	}
	outboxtest.Main(m)
}

func emptyDB(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return outboxtest.EmptyDB(t).Pool
}
