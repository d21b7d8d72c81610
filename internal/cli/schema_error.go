package cli

import (
	"errors"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// SchemaError recognises a database without our tables, or with an older form of them, and says what to do about it.
func SchemaError(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case pgerrcode.UndefinedTable, pgerrcode.UndefinedColumn, pgerrcode.UndefinedFunction, pgerrcode.UndefinedObject:
		return fault.Hint(fault.As(fault.Precondition, err), "the database's schema is missing or old: outboxctl migrate brings it up to date")
	case pgerrcode.InsufficientPrivilege:
		return fault.Hint(fault.As(fault.Precondition, err), "outboxctl migrate grants prints what each role needs")
	default:
		return err
	}
}
