package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// The exit codes of every command but check, whose codes are those of a Nagios plugin.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2 // usage or configuration
	exitNotFound     = 3
	exitPrecondition = 4 // the world is not as the command needs it
	exitPartial      = 5 // some of it was done
	exitRefused      = 6 // destructive, and nobody said yes
	exitSignalBase   = 128
)

// A codedError is an error that knows the exit code it deserves.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// A hintedError carries advice for the operator: usually the command to run next.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }
func (e *hintedError) Hint() string  { return e.hint }

func usageErrorf(format string, args ...any) error {
	return &codedError{exitUsage, fmt.Errorf(format, args...)}
}

func notFoundErrorf(format string, args ...any) error {
	return &codedError{exitNotFound, fmt.Errorf(format, args...)}
}

func preconditionErrorf(format string, args ...any) error {
	return &codedError{exitPrecondition, fmt.Errorf(format, args...)}
}

func partialErrorf(format string, args ...any) error {
	return &codedError{exitPartial, fmt.Errorf(format, args...)}
}

func refusedErrorf(format string, args ...any) error {
	return &codedError{exitRefused, fmt.Errorf(format, args...)}
}

// withCode gives an error its exit code.
func withCode(code int, err error) error { return &codedError{code, err} }

// withHint adds advice to an error.
func withHint(err error, format string, args ...any) error {
	return &hintedError{err, fmt.Sprintf(format, args...)}
}

// exitCode is the code of the outermost error in the chain that has one.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	var ran *commandError
	if err != nil && !errors.As(err, &ran) {
		return exitUsage
	}
	return exitFailed
}

func (e *codedError) ExitCode() int { return e.code }

// report writes the error, and its hint where it has one, for a person to read.
func (a *App) report(err error) {
	var silent interface{ Silent() bool }
	if errors.As(err, &silent) && silent.Silent() {
		return
	}
	label := a.paint(a.ErrTTY, styleError, "error:")
	text := safetext.Block(safetext.Redact(err.Error()))
	fmt.Fprintf(a.Err, "%s %s\n", label, strings.TrimRight(text, "\n"))
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) && hinted.Hint() != "" {
		fmt.Fprintf(a.Err, "%s %s\n", a.paint(a.ErrTTY, styleHint, "hint:"), safetext.Block(safetext.Redact(hinted.Hint())))
	}
}

// silentError ends a command with an exit code when everything worth saying is on the screen already.
type silentError struct{ code int }

func (e silentError) Error() string { return fmt.Sprintf("exit %d", e.code) }
func (e silentError) ExitCode() int { return e.code }
func (e silentError) Silent() bool  { return true }
