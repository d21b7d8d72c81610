package catalogue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrColumns is why a catalogue cannot be recorded: the columns of this database cannot hold what
// it says.
var ErrColumns = errors.New("the columns of outbox_events cannot hold the catalogue")

// ColumnError is the ErrColumns of one column.
type ColumnError struct {
	Column, Problem string
	// Statement helps before the table becomes the outbox; afterwards columns keep their types.
	Statement string
}

func (e *ColumnError) Error() string {
	return fmt.Sprintf("%s: %s; %s", ErrColumns, e.Problem,
		"say it otherwise in the catalogue, or use a database that was made with migrate --types text")
}

func (e *ColumnError) Unwrap() error { return ErrColumns }

// Enum values come before everything else and stay: a value cannot be used in the transaction that
// adds it.
const (
	// PostgreSQL takes 63 bytes as the value of an enum; a varchar's length is stored with 4 bytes
	// more.
	columnsSQL = `
SELECT a.attname::text, a.atttypid::regtype::text, t.typtype = 'e', t.typcategory = 'S',
       CASE WHEN t.typtype = 'e' THEN 63 WHEN t.typname = 'varchar' AND a.atttypmod > 4 THEN a.atttypmod - 4 ELSE 0 END
  FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
 WHERE a.attrelid = to_regclass('outbox_events') AND a.attname IN ('event_type', 'aggregate_type', 'aggregate_id')
 ORDER BY a.attnum`

	addValueSQL = `SELECT format('ALTER TYPE %s ADD VALUE IF NOT EXISTS %L', $1::text, $2::text)`
)

// column is one of those whose type an installation chooses.
type column struct {
	Name, Type   string
	Enum, String bool
	// Max is how long a value may be; 0 means that nothing bounds it.
	Max int
}

// Fits returns an ErrColumns when events of the catalogue could not be stored in this database.
func (c *Catalogue) Fits(ctx context.Context, db DB) error {
	_, err := c.fit(ctx, db)
	return err
}

func (c *Catalogue) fit(ctx context.Context, db DB) ([]column, error) {
	var columns []column
	rows, err := db.Query(ctx, columnsSQL)
	if err == nil {
		columns, err = pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	}
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

// fitColumn looks for what a column cannot hold. An event of no aggregate has an empty id, which is
// neither a UUID nor a number.
func (c *Catalogue) fitColumn(col column) error {
	refuse := func(format string, args ...any) error {
		return &ColumnError{col.Name, fmt.Sprintf(format, args...),
			fmt.Sprintf("ALTER TABLE outbox_events ALTER COLUMN %s TYPE text", col.Name)}
	}
	for _, d := range c.documents {
		for _, t := range d.Types {
			if t.Aggregate == None && !col.String && col.Name != "event_type" {
				return refuse("type %s says aggregate: none, and %s is %s here, which is never empty", t.Name,
					col.Name, col.Type)
			}
		}
	}
	if col.Name == "aggregate_id" || col.Max == 0 {
		return nil
	}
	for _, name := range c.names(col.Name) {
		if len(name) > col.Max {
			return refuse("%s %s has %d bytes, and the column is %s here, which takes %d", col.Name,
				cut(name), len(name), col.Type, col.Max)
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
			err := pool.QueryRow(ctx, addValueSQL, col.Type, value).Scan(&statement)
			if err == nil {
				_, err = pool.Exec(ctx, statement)
			}
			if err != nil {
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
				names = append(append(names, t.Name), t.Was...)
			} else {
				names = append(names, t.aggregate())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
