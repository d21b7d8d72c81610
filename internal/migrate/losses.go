package migrate

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Loss is something a Down drops.
type Loss struct {
	Kind string // table, column, view, function, …
	Name string
	// Rows the table has, counted up to maxCounted; -1 for anything but an existing table.
	Rows int64
	// Unpublished are the rows among them that were never published.
	Unpublished int64
}

// maxCounted keeps counting cheap: an operator need not know a million exactly to hesitate.
const maxCounted = 100_000

func (l Loss) String() string {
	switch {
	case l.Rows < 0:
		return l.Kind + " " + l.Name
	case l.Unpublished > 0:
		return fmt.Sprintf("%s %s with %s, %s of them not published", l.Kind, l.Name, rows(l.Rows),
			bounded(l.Unpublished))
	default:
		return fmt.Sprintf("%s %s with %s", l.Kind, l.Name, rows(l.Rows))
	}
}

func rows(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return bounded(n) + " rows"
}

func bounded(n int64) string {
	if n > maxCounted {
		return fmt.Sprintf("more than %d", maxCounted)
	}
	return fmt.Sprint(n)
}

var dropped = regexp.MustCompile(`\bDROP (TABLE|COLUMN|VIEW|FUNCTION|TYPE|INDEX|TRIGGER)(?: CONCURRENTLY)?(?: IF EXISTS)? ([a-z_0-9]+)`)

// Losses lists what the SQL of a plan drops. It only reads.
func Losses(ctx context.Context, pool *pgxpool.Pool, plan []Planned) ([]Loss, error) {
	var out []Loss
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for _, p := range plan {
			for _, m := range dropped.FindAllStringSubmatch(p.SQL, -1) {
				l := Loss{Kind: strings.ToLower(m[1]), Name: m[2], Rows: -1}
				if l.Kind == "table" {
					if err := l.count(ctx, tx); err != nil {
						return fmt.Errorf("count rows of %s: %w", l.Name, err)
					}
				}
				out = append(out, l)
			}
		}
		return nil
	})
	return out, err
}

func (l *Loss) count(ctx context.Context, tx pgx.Tx) error {
	var exists, delivers bool
	err := tx.QueryRow(ctx, `
SELECT to_regclass($1) IS NOT NULL,
       EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'published_at' AND NOT attisdropped)`,
		l.Name).Scan(&exists, &delivers)
	if err != nil || !exists {
		return err
	}
	table := pgx.Identifier{l.Name}.Sanitize()
	limit := fmt.Sprintf(" LIMIT %d", maxCounted+1)
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM "+table+limit+") AS t").Scan(&l.Rows); err != nil || !delivers {
		return err
	}
	return tx.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM "+table+" WHERE published_at IS NULL"+limit+") AS t").Scan(&l.Unpublished)
}
