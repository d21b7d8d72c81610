package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Loss is a table that a Down drops, or with Column a column of a table that stays.
type Loss struct {
	Table, Column string
	// Rows of the table and how many of them were never published, counted up to MaxCounted.
	Rows, Unpublished int64
}

// MaxCounted keeps counting cheap: an operator need not know a million exactly to hesitate.
const MaxCounted = 100_000

// presentTables are the tables of the outbox's schema, each with its columns.
const presentTables = `
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
 GROUP BY c.oid ORDER BY c.oid`

// Losses lists what of the database's tables and columns a plan drops. It only reads.
func Losses(ctx context.Context, pool *pgxpool.Pool, plan []Planned) (losses []Loss, err error) {
	var statements string
	for _, p := range plan {
		statements += p.SQL
	}
	drops := func(kind, name string) bool {
		statement := "DROP " + kind + " IF EXISTS " + name
		return strings.Contains(statements, statement+";") || strings.Contains(statements, statement+",")
	}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		type table struct {
			Name    string
			Columns []string
		}
		tables, err := collect(ctx, tx, pgx.RowToStructByPos[table], presentTables)
		for _, t := range tables {
			if !drops("TABLE", t.Name) {
				for _, column := range t.Columns {
					if t.Name == "outbox_events" && drops("COLUMN", column) {
						losses = append(losses, Loss{Table: t.Name, Column: column})
					}
				}
				continue
			}
			l := Loss{Table: t.Name}
			count := "SELECT count(*) FROM (SELECT FROM " + pgx.Identifier{t.Name}.Sanitize() + " WHERE %s" +
				fmt.Sprintf(" LIMIT %d) AS t", MaxCounted+1)
			if err := tx.QueryRow(ctx, fmt.Sprintf(count, "true")).Scan(&l.Rows); err != nil {
				return fmt.Errorf("count rows of %s: %w", l.Table, err)
			}
			if slices.Contains(t.Columns, "published_at") {
				if err := tx.QueryRow(ctx, fmt.Sprintf(count, "published_at IS NULL")).Scan(&l.Unpublished); err != nil {
					return fmt.Errorf("count rows of %s: %w", l.Table, err)
				}
			}
			losses = append(losses, l)
		}
		return err
	})
	return losses, err
}
