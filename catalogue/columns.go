package catalogue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrColumns is why a catalogue cannot be recorded: the columns of this database cannot hold what it says.
var ErrColumns = errors.New("the columns of outbox_events cannot hold the catalogue")

// maxEnumBytes is what PostgreSQL takes as the value of an enum.
const maxEnumBytes = 63

// Enum values come before everything else and stay: a value cannot be used in the transaction that adds it.
const (
	columnsSQL = `
SELECT a.attname::text, a.atttypid::regtype::text, t.typtype = 'e', t.typcategory = 'S'
  FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
 WHERE a.attrelid = to_regclass('outbox_events') AND a.attname IN ('event_type', 'aggregate_type', 'aggregate_id')
 ORDER BY a.attnum`

	addValueSQL = `SELECT format('ALTER TYPE %s ADD VALUE IF NOT EXISTS %L', $1::text, $2::text)`
)

// column is one of those whose type an installation chooses.
type column struct {
	Name, Type   string
	Enum, String bool
}

// Fits returns an ErrColumns when events of the catalogue could not be stored in this database.
func (c *Catalogue) Fits(ctx context.Context, db DB) error {
	_, err := c.fit(ctx, db)
	return err
}

func (c *Catalogue) fit(ctx context.Context, db DB) ([]column, error) {
	rows, err := db.Query(ctx, columnsSQL)
	if err != nil {
		return nil, fmt.Errorf("look at the columns: %w", err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		return nil, fmt.Errorf("look at the columns: %w", err)
	}
	for _, col := range columns {
		if err := c.fitColumn(col); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// fitColumn looks for what a column cannot hold. An event of no aggregate has an empty id, which is neither a UUID nor a number.
func (c *Catalogue) fitColumn(col column) error {
	for _, d := range c.documents {
		for _, t := range d.Types {
			if t.Aggregate == None && !col.String && col.Name != "event_type" {
				return fmt.Errorf("%w: type %s says aggregate: none, and %s is %s here, which is never empty; name an aggregate, or use a database that was made with migrate --types text",
					ErrColumns, t.Name, col.Name, col.Type)
			}
		}
	}
	for _, value := range c.names(col.Name) {
		if col.Enum && len(value) > maxEnumBytes {
			return fmt.Errorf("%w: %s %s has %d bytes, and an enum takes %d", ErrColumns, col.Name, cut(value), len(value), maxEnumBytes)
		}
	}
	return nil
}

// addEnumValues teaches the database's enums the names they lack.
func (c *Catalogue) addEnumValues(ctx context.Context, pool *pgxpool.Pool, columns []column) error {
	for _, col := range columns {
		if !col.Enum {
			continue
		}
		for _, value := range c.names(col.Name) {
			var statement string
			if err := pool.QueryRow(ctx, addValueSQL, col.Type, value).Scan(&statement); err != nil {
				return fmt.Errorf("add a value to %s: %w", col.Type, err)
			}
			if _, err := pool.Exec(ctx, statement); err != nil {
				return fmt.Errorf("add a value to %s: %w", col.Type, err)
			}
		}
	}
	return nil
}

// names lists what a column of the table may hold.
func (c *Catalogue) names(column string) []string {
	var names []string
	for _, d := range c.documents {
		for _, t := range d.Types {
			if column == "event_type" {
				names = append(names, t.Name)
			} else {
				names = append(names, t.aggregate())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
