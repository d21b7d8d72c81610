package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// The exit codes of every command but check, whose codes are those of a Nagios plugin.
const (
	ExitOK           = 0
	ExitFailed       = 1
	ExitUsage        = 2 // usage or configuration
	ExitNotFound     = 3
	ExitPrecondition = 4 // the world is not as the command needs it
	ExitPartial      = 5 // some of it was done
	ExitRefused      = 6 // destructive and not confirmed
	ExitSignalBase   = 128
)

// ExitCode returns the code of the outermost error in the chain that has one.
func ExitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	kind, known := fault.KindOf(err)
	switch kind {
	case fault.Usage:
		return ExitUsage
	case fault.NotFound:
		return ExitNotFound
	case fault.Precondition:
		return ExitPrecondition
	case fault.Partial:
		return ExitPartial
	case fault.Refused:
		return ExitRefused
	}
	if err != nil && !known && !is[*ranError](err) {
		return ExitUsage
	}
	return ExitFailed
}

// Report writes the error, and its hint where it has one, for a person to read.
func (a *App) Report(err error) {
	err = fault.Database(err)
	if !said(err) {
		label := a.Paint(a.ErrTTY, StyleError, "error:")
		text := safetext.Block(safetext.Redact(err.Error()))
		fmt.Fprintf(a.Err, "%s %s\n", label, strings.TrimRight(text, "\n"))
	}
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(a.Err, "%s %s\n", a.Paint(a.ErrTTY, styleHint, "hint:"),
			safetext.Block(safetext.Redact(hint)))
	}
}

// An exitError ends a command with an exit code of its own.
type exitError struct {
	code int
	err  error
	said bool // the error is on the screen already, or there is none
}

// said reports whether a command has printed its error itself.
func said(err error) bool {
	exit, ok := errors.AsType[*exitError](err)
	return ok && exit.said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }
func (e *exitError) ExitCode() int { return e.code }

// Silent ends a command with an exit code when everything worth saying is on the screen already.
func Silent(code int) error { return &exitError{code: code, said: true} }

// Exit ends a command with an exit code and reports err.
func Exit(code int, err error) error { return &exitError{code: code, err: err} }

// Said ends a command with an exit code when it has printed err itself; only a hint is reported.
func Said(code int, err error) error { return &exitError{code: code, err: err, said: true} }

// Ran marks what a command itself returned. What cobra returns without it (flags that exclude each
// other, say) happened before the command ran and is a usage error. What the database says is put
// into our words here.
func Ran(err error) error { return &ranError{fault.Database(err)} }

type ranError struct{ error }

func (e *ranError) Unwrap() error { return e.error }

// Must is for errors that only a mistake in the program can cause.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}
