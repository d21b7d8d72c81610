package migrate_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// columns lists those of outbox_events in order: name, type, nullable, default.
func columns(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return queryAll(t, pool, `
SELECT concat_ws(' ', column_name, udt_name, is_nullable, coalesce(column_default, ''))
  FROM information_schema.columns
 WHERE table_schema = current_schema() AND table_name = 'outbox_events'
 ORDER BY ordinal_position`)
}

// indexes lists those of outbox_events by definition.
func indexes(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	defs := queryAll(t, pool, `SELECT indexdef FROM pg_indexes WHERE tablename = 'outbox_events' AND schemaname = current_schema() ORDER BY indexname`)
	for i, d := range defs {
		defs[i] = strings.Replace(d, " ON public.", " ON ", 1)
	}
	return defs
}
