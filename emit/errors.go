package emit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// ErrInvalid is what every refusal to emit an event is: errors.Is finds it,
// errors.As finds the *InvalidError with the details.
var ErrInvalid = errors.New("invalid event")

// FieldProblem is one thing that is wrong with an event.
type FieldProblem struct {
	// Field is the field's name as JSON lines spell it: aggregateId, data.status.
	Field string
	// Problem reads after the field's name: "is required".
	Problem string
}

// InvalidError says why an event was refused. Nothing was sent to the database, so
// the caller's transaction is unharmed.
type InvalidError struct {
	// Index is the event's position in the call that emitted several.
	Index    int
	Problems []FieldProblem
	// TooLarge is set when one of the problems is a limit of the broker.
	TooLarge *wire.TooLargeError
}

func (e *InvalidError) Error() string {
	const most = 5
	texts := make([]string, 0, most+1)
	for i, p := range e.Problems {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(e.Problems)-most))
			break
		}
		texts = append(texts, p.Field+" "+p.Problem)
	}
	return ErrInvalid.Error() + ": " + strings.Join(texts, "; ")
}

// Is makes every InvalidError an ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap gives access to the limit that was passed.
func (e *InvalidError) Unwrap() error {
	if e.TooLarge == nil {
		return nil
	}
	return e.TooLarge
}

func (e *InvalidError) add(field, format string, args ...any) {
	e.Problems = append(e.Problems, FieldProblem{field, fmt.Sprintf(format, args...)})
}

// ErrNotMigrated says that the database lacks what emitting needs.
var ErrNotMigrated = errors.New("the database has no outbox, or one of another version")

// emitFailed translates a database error once, at the edge.
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
