package fault

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// Database gives an error of the database its kind and a hint: a value that no enum has is the
// caller's mistake, a missing schema or privilege is the installation's.
func Database(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if _, known := KindOf(err); known {
		return err
	}
	switch pg.Code {
	case pgerrcode.InvalidTextRepresentation:
		return Hint(Usagef("%s", unknownValue(pg.Message)),
			"outboxctl registry list shows the event types and aggregates")
	case pgerrcode.UndefinedTable, pgerrcode.UndefinedColumn, pgerrcode.UndefinedFunction, pgerrcode.UndefinedObject:
		return Hint(Preconditionf("%w", Reword(err, "the database's schema is missing or old: %s",
			pg.Message)), "outboxctl migrate brings it up to date")
	case pgerrcode.ReadOnlySQLTransaction:
		return Hint(Preconditionf("%w", Reword(err, "nothing can be written here")),
			"the server is a replica, or default_transaction_read_only is on for this login or database")
	case pgerrcode.InsufficientPrivilege:
		return Hint(Preconditionf("%w", Reword(err, "this database user may not do that: %s",
			pg.Message)), "outboxctl migrate grants prints what each role needs")
	default:
		return err
	}
}

// unknownValue reports in our words that a column cannot have a value. Those of PostgreSQL name the
// column's type, which no operator has chosen.
func unknownValue(message string) string {
	if text, isUUID := strings.CutPrefix(message, "invalid input syntax for type uuid: "); isUUID {
		return text + " is not a UUID, and the ids of this database are"
	}
	enum, text, isEnum := strings.Cut(strings.TrimPrefix(message, "invalid input value for enum "), ": ")
	if !isEnum || !strings.HasPrefix(message, "invalid input value for enum ") {
		return message
	}
	name := strings.TrimSuffix(enum[strings.LastIndex(enum, ".")+1:], "_enum")
	return fmt.Sprintf("%s is no %s that this database knows", text,
		strings.ReplaceAll(name, "_", " "))
}
