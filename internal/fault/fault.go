// Package fault gives errors what an operator's tool needs to know about them: a kind, which
// becomes the exit code of a command or the status of an HTTP answer, and a hint, which is usually
// the command to run next.
//
// An error without a kind is Failed. Of several kinds in one chain the outermost counts.
package fault

import (
	"errors"
	"fmt"
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
	var e *kindError
	if !errors.As(err, &e) {
		return Failed, false
	}
	return e.kind, true
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
