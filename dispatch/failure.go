package dispatch

import (
	"time"

	"github.com/outboxctl/outboxctl/internal/dispatch"
)

// Class is what a failure means for the event and for its topic.
type Class uint8

// The classes of failures.
const (
	// Retryable: the broker may accept the same message later. The event loses an attempt and
	// waits.
	Retryable Class = iota
	// Refused: this message was not accepted, and it is not known whether it or its topic is
	// to blame. The topic's other answers decide.
	Refused
	// Rejected: this message will never be accepted, although another one of its topic was
	// since. The event dies.
	Rejected
	// Misconfigured: the topic takes nothing: it is missing, forbidden or in the wrong state.
	// It is left alone, its events keep their attempts.
	Misconfigured
)

func (c Class) String() string { return dispatch.Class(c).String() }

// Failure is an error with its class and the broker's own code.
type Failure struct {
	Class Class
	// Code is the broker's own word for the error. It is a metric label, so it must come from
	// a small set.
	Code string
	Err  error
}

// NewFailure is an error of a class. Where in doubt it is Retryable: waiting is safe,
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

// As shows the failure to the dispatcher, by errors.As.
func (f *Failure) As(target any) bool {
	t, ok := target.(**dispatch.Failure)
	if ok {
		*t = dispatch.NewFailure(dispatch.Class(f.Class), f.Code, f.Err)
	}
	return ok
}

// ErrUnsent in the error of a message promises that it was not stored and will not be. It
// costs no attempt.
var ErrUnsent = dispatch.ErrUnsent

// ErrThrottled in the error of a message means that the broker is sent too much of its
// ordering key. It says nothing about other keys.
var ErrThrottled = dispatch.ErrThrottled

// Answered is err of a message whose destination was there and failed this message: as long
// as no other one fails so, that is the message's own failure, and its topic stays open. Each
// takes every error of its function for one.
func Answered(err error) error { return dispatch.Answered(err) }

// RetryAfter is the error of a message that must not be offered again before that time is
// over. Where the whole topic takes nothing, it is left alone for as long.
func RetryAfter(err error, wait time.Duration) error { return dispatch.RetryAfter(err, wait) }

// Reject returns the error of a message that can never be accepted. The event dies as soon as
// its topic has accepted another one, in the same call or since: a topic that rejects
// everything is left alone instead, and its events keep their attempts.
func Reject(err error) error { return NewFailure(Refused, "rejected", err) }

// Pause returns the error of a message that is fine but whose topic takes none now: the topic
// is left alone until one event on trial is accepted, and its events keep their attempts.
func Pause(err error) error { return NewFailure(Misconfigured, "paused", err) }

// ClassOf returns the class of an error; one without a class is Retryable.
func ClassOf(err error) Class { return Class(dispatch.ClassOf(err)) }

// codeUnknown is the code of an error that is no Failure.
const codeUnknown = "unknown"

// CodeOf returns the code of an error; one without a code has "unknown".
func CodeOf(err error) string { return dispatch.CodeOf(err) }
