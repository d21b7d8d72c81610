// Package fault gives errors what an operator's tool needs to know about them: a kind, which
// becomes the exit code of a command or the status of an HTTP answer, and a hint, which is usually
// the command to run next.
//
// An error without a kind is Failed. Of several kinds in one chain the outermost counts.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// Kind is what an error means to the person who asked.
type Kind string

// The kinds of errors.
const (
	Failed       Kind = "failed"
	Usage        Kind = "usage"        // the request or the configuration is wrong
	NotFound     Kind = "not found"    // what was named does not exist
	Precondition Kind = "precondition" // the database, the broker or Redis is not as the request needs it
	Partial      Kind = "partly done"
	Refused      Kind = "refused" // destructive and not confirmed
)

type kindError struct {
	error
	kind Kind
}

func (e *kindError) Unwrap() error { return e.error }

type hintError struct {
	error
	hint string
}

func (e *hintError) Unwrap() error { return e.error }
func (e *hintError) Hint() string  { return e.hint }

// As returns err with a kind.
func As(kind Kind, err error) error { return &kindError{err, kind} }

// Hint returns err with advice.
func Hint(err error, format string, args ...any) error {
	return &hintError{err, fmt.Sprintf(format, args...)}
}

// Reword returns err in words of ours: what libraries and servers say is for those who wrote them.
func Reword(err error, format string, args ...any) error {
	return &reworded{err, fmt.Sprintf(format, args...)}
}

type reworded struct {
	error
	words string
}

func (e *reworded) Error() string { return e.words }
func (e *reworded) Unwrap() error { return e.error }

// Usagef returns an error of the kind Usage.
func Usagef(format string, args ...any) error { return As(Usage, fmt.Errorf(format, args...)) }

// NotFoundf returns an error of the kind NotFound.
func NotFoundf(format string, args ...any) error { return As(NotFound, fmt.Errorf(format, args...)) }

// Preconditionf returns an error of the kind Precondition.
func Preconditionf(format string, args ...any) error {
	return As(Precondition, fmt.Errorf(format, args...))
}

// Partialf returns an error of the kind Partial.
func Partialf(format string, args ...any) error { return As(Partial, fmt.Errorf(format, args...)) }

// Refusedf returns an error of the kind Refused.
func Refusedf(format string, args ...any) error { return As(Refused, fmt.Errorf(format, args...)) }

// KindOf returns the kind of an error and whether it has one.
func KindOf(err error) (kind Kind, ok bool) {
	if e, ok := errors.AsType[*kindError](err); ok {
		return e.kind, true
	}
	return Failed, false
}

// HintOf returns the hint of the outermost error that has one, also of error types with a method
// Hint; empty if there is none.
func HintOf(err error) string {
	var e interface{ Hint() string }
	if !errors.As(err, &e) {
		return ""
	}
	return e.Hint()
}

// malformedArgument is what our functions in the database refuse an argument with, in words for
// the caller.
const malformedArgument = "OX300"

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
	case malformedArgument:
		return Usagef("%w", Reword(err, "%s", pg.Message))
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
	rest, isEnum := strings.CutPrefix(message, "invalid input value for enum ")
	enum, text, hasText := strings.Cut(rest, ": ")
	if !isEnum || !hasText {
		return message
	}
	name := strings.TrimSuffix(enum[strings.LastIndex(enum, ".")+1:], "_enum")
	return fmt.Sprintf("%s is no %s that this database knows", text,
		strings.ReplaceAll(name, "_", " "))
}

// File explains in our words why the file or folder of this name could not be used. The system's
// name the call that failed.
func File(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Reword(err, "%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return Reword(err, "%s may not be used by this user", name)
	case errors.Is(err, syscall.EISDIR):
		return Reword(err, "%s is a folder", name)
	case errors.Is(err, syscall.ENOTDIR):
		return Reword(err, "%s lies below a file, not below a folder", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return Reword(err, "the name %.40s… is too long", name)
	default:
		return err
	}
}

// Address explains in our words why nothing can be served or reached at an address.
func Address(addr string, err error) error {
	var unknown *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return Reword(err, "%s is in use by another process", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return Reword(err, "%s is not an address of this machine", addr)
	case errors.Is(err, syscall.EACCES):
		return Reword(err, "this user may not use the port of %s", addr)
	case errors.Is(err, syscall.ECONNREFUSED):
		return Reword(err, "no server answers there (connection refused)")
	case errors.As(err, &unknown):
		return Reword(err, "the host's name is not known")
	case errors.Is(err, context.DeadlineExceeded):
		return Reword(err, "no answer in time")
	default:
		return err
	}
}
