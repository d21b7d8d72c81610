package dispatch

import (
	"errors"
	"time"
)

// Class is what a failed publish means for the row and for its topic. The public package, which
// converts its own, explains the classes.
type Class uint8

const (
	Retryable Class = iota
	Refused
	Rejected
	Misconfigured
)

func (c Class) String() string {
	switch c {
	case Refused:
		return "refused"
	case Rejected:
		return "rejected"
	case Misconfigured:
		return "misconfigured"
	default:
		return "retryable"
	}
}

// Failure is a failed publish with its class and the broker's code: a Failure of the public
// package turns into one by errors.As.
type Failure struct {
	error
	Class Class
	Code  string
}

// NewFailure is a failure of a class.
func NewFailure(class Class, code string, err error) *Failure { return &Failure{err, class, code} }

func (f *Failure) Unwrap() error { return f.error }

// ClassOf reads the class of a failed publish. An error without one is
// retryable.
func ClassOf(err error) Class {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Class
	}
	return Retryable
}

// codeUnknown is the code of an error that is no Failure.
const codeUnknown = "unknown"

// CodeOf reads the broker's code of a failed publish.
func CodeOf(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok && f.Code != "" {
		return f.Code
	}
	return codeUnknown
}

// ErrUnsent is in the error of a message that was not stored for certain, and
// for no fault of its own.
var ErrUnsent = errors.New("not sent: no time was left")

// CodeUnsent is the code of a message that others left no time for. One that was not sent because
// there is no connection, or because the topic may not be published to, has the broker's own code.
const CodeUnsent = "unsent"

// provesNothing reports whether a failure says nothing about the broker.
func provesNothing(err error) bool {
	code := CodeOf(err)
	return errors.Is(err, ErrThrottled) || errors.Is(err, ErrUnsent) && (code == CodeUnsent || code == codeUnknown)
}

// ErrThrottled is in the error of a message whose ordering key the broker is sent too much of.
var ErrThrottled = errors.New("too much of one ordering key")

// answered is in the error of a message that its destination was there for, and failed.
type answered struct{ error }

func (a *answered) Unwrap() error { return a.error }

// Answered marks the error of a message that its destination has answered with.
func Answered(err error) error { return &answered{err} }

func isAnswered(err error) bool { return errors.As(err, new(*answered)) }

// maxRetryAfter is the longest wait that a broker may ask for.
const maxRetryAfter = time.Hour

type retryAfter struct {
	error
	wait time.Duration
}

func (r *retryAfter) Unwrap() error { return r.error }

// RetryAfter is err of a message that must not be offered again before that time is over.
func RetryAfter(err error, wait time.Duration) error {
	return &retryAfter{err, min(wait, maxRetryAfter)}
}

// waitOf is how long the broker wants to be left alone; zero where it did not say.
func waitOf(err error) time.Duration {
	if r, ok := errors.AsType[*retryAfter](err); ok {
		return r.wait
	}
	return 0
}
