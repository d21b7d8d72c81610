package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// selectForeign lists what is not outboxctl's and can keep an event out of the table: outbox_emit then fails with OX008,
// a plain INSERT in its own way.
const selectForeign = `
SELECT 'unique index ' || c.relname
  FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
 WHERE i.indrelid = to_regclass('outbox_events') AND (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary AND c.relname <> 'outbox_events_dedupe_idx'
 UNION ALL
SELECT 'trigger ' || g.tgname
  FROM pg_trigger AS g
 WHERE g.tgrelid = to_regclass('outbox_events') AND NOT g.tgisinternal AND g.tgenabled <> 'D' AND g.tgtype & 7 = 7 -- BEFORE INSERT … FOR EACH ROW
   AND g.tgname <> 'outbox_events_refuse_inflated'
 ORDER BY 1`

func (d Database) foreign(ctx context.Context) ([]Finding, error) {
	rows, err := d.Pool.Query(ctx, selectForeign)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		return nil, err
	}
	var found []Finding
	for _, name := range names {
		remedy := "make sure that it lets every event in; nothing of outboxctl needs it"
		if index, ok := strings.CutPrefix(name, "unique index "); ok {
			remedy = fmt.Sprintf("make sure that no two events share its values, or DROP INDEX CONCURRENTLY %s", pgx.Identifier{index}.Sanitize())
		}
		found = append(found, warn(remedy, "%s on outbox_events is not outboxctl's: an event that it keeps out makes outbox_emit fail with OX008", name)...)
	}
	return found, nil
}
