package dispatch

import (
	"errors"
	"time"
)

// Class is what a failed publish means for the row and for its topic. It is the public
// package's, which converts its own.
type Class uint8

const (
	// Retryable: the broker may accept the same message later. The row loses
	// an attempt and waits.
	Retryable Class = iota
	// Refused: the broker does not accept this message, and it is not known
	// whether the message or its topic is to blame. The topic's other answers
	// decide.
	Refused
	// Rejected: the broker will never accept this message, although it has
	// accepted another one of the same topic since. The row dies.
	Rejected
	// Misconfigured: nothing is wrong with the message, its topic is missing,
	// forbidden or in the wrong state. The topic pauses, rows keep their
	// attempts.
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

// Failure is a failed publish together with its class.
type Failure struct {
	Class Class
	// Code is the broker's own word for the error. It is a metric label, so it must
	// come from a small set.
	Code string
	// Err is the broker's own error.
	Err error
}

// NewFailure is a failure of a class. Only the broker's package knows which class
// a code of its broker has; where in doubt it is Retryable: waiting is safe,
// dead-lettering a good event is not.
func NewFailure(class Class, code string, err error) *Failure {
	return &Failure{Class: class, Code: code, Err: err}
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Code
	}
	return f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// ClassOf reads the class of a failed publish. An error without one is
// retryable.
func ClassOf(err error) Class {
	var f *Failure
	if errors.As(err, &f) {
		return f.Class
	}
	return Retryable
}

// codeUnknown is the code of an error that is no Failure.
const codeUnknown = "unknown"

// CodeOf reads the broker's code of a failed publish.
func CodeOf(err error) string {
	var f *Failure
	if errors.As(err, &f) && f.Code != "" {
		return f.Code
	}
	return codeUnknown
}

// ErrUnsent is in the error of a message that was not stored for certain, and
// for no fault of its own: the time was over before its turn to be sent came, or
// to be sent again without the neighbour it was refused with.
var ErrUnsent = errors.New("not sent: no time was left")

// CodeUnsent is the code of a message that others left no time for. One that was not sent because
// there is no connection, or because the topic may not be published to, has the broker's own code.
const CodeUnsent = "unsent"

// provesNothing reports whether a failure says nothing about the broker.
func provesNothing(err error) bool {
	code := CodeOf(err)
	return errors.Is(err, ErrThrottled) || errors.Is(err, ErrUnsent) && (code == CodeUnsent || code == codeUnknown)
}

// ErrThrottled is in the error of a message whose ordering key the broker is sent
// too much of. It says nothing about other keys.
var ErrThrottled = errors.New("too much of one ordering key")

// answered is in the error of a message that its destination was there for, and failed: as
// long as no other message fails so, that says nothing about the topic.
type answered struct{ error }

func (a *answered) Unwrap() error { return a.error }

// Answered marks the error of a message that its destination has answered with.
func Answered(err error) error { return &answered{err} }

func isAnswered(err error) bool { return errors.As(err, new(*answered)) }

// maxRetryAfter is the longest wait that a broker may ask for.
const maxRetryAfter = time.Hour

// retryAfter is in the error of a message that the broker wants later.
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
	var r *retryAfter
	if errors.As(err, &r) {
		return r.wait
	}
	return 0
}
