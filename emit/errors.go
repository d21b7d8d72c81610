package emit

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// ErrInvalid is in the error of every event that was refused. errors.As finds the
// *InvalidError with the details.
var ErrInvalid = errors.New("invalid event")

// InvalidError lists everything that is wrong with a refused event. Nothing was sent
// to the database, so the caller's transaction is unharmed.
type InvalidError struct {
	// Index is the event's position in the call that emitted several.
	Index    int
	Problems wire.Problems
	// TooLarge is set when one of the problems is a limit of the broker.
	TooLarge *wire.TooLargeError
}

func (e *InvalidError) Error() string {
	return ErrInvalid.Error() + ": " + e.Problems.String()
}

// Is makes every InvalidError an ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns TooLarge, if it is set.
func (e *InvalidError) Unwrap() error {
	if e.TooLarge == nil {
		return nil
	}
	return e.TooLarge
}

func (e *InvalidError) add(field, format string, args ...any) {
	e.Problems = append(e.Problems, wire.FieldProblem{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// ErrNotMigrated is in the error when the database has no outbox: outboxctl migrate
// creates it.
var ErrNotMigrated = errors.New("the database has no outbox, or one of another version")

// emitFailed translates a database error.
func emitFailed(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "42883", "42P01", "42703", "3F000": // undefined function, table, column; invalid schema name
			return fmt.Errorf("emit events: %w (%w)", ErrNotMigrated, err)
		}
		if pg.Hint != "" {
			return fmt.Errorf("emit events: %w (%s)", err, pg.Hint)
		}
	}
	return fmt.Errorf("emit events: %w", err)
}
