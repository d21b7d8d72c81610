package dispatch

import "errors"

// Class is what a failed publish means for the row and for its topic.
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

// Reject returns the error of a message that can never be accepted. It dies as soon as its topic
// has accepted another message, in the same call or since: a topic that rejects
// everything is left alone instead, and its events keep their attempts.
func Reject(err error) error { return NewFailure(Refused, "rejected", err) }

// Pause returns the error of a message with which nothing is wrong, and whose topic takes
// none: it is left alone until it is ready again, and its events keep their
// attempts.
func Pause(err error) error { return NewFailure(Misconfigured, "paused", err) }

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
