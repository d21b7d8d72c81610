package dispatch

import (
	"context"

	"github.com/outboxctl/outboxctl/internal/dispatch"
)

type (
	// Message is one event as a Publisher gets it.
	Message = dispatch.Message
	// Result is the answer for one message.
	Result = dispatch.Result
	// Publisher hands messages to a broker, or to whatever takes events. Each makes one of a function; who writes one
	// runs the suite of package dispatchtest on it.
	Publisher = dispatch.Publisher
	// Func publishes one message.
	Func = dispatch.Func
	// PanicError is the panic of a Func.
	PanicError = dispatch.PanicError
	// Failure is an error with its class and the broker's own code.
	Failure = dispatch.Failure
	// Class is what a failure means for the event and for its topic.
	Class = dispatch.Class
)

// The classes of failures.
const (
	// Retryable: the event loses an attempt and waits.
	Retryable = dispatch.Retryable
	// Refused: this message was not accepted, and it is not known whether it or its topic is to blame.
	Refused = dispatch.Refused
	// Rejected: this message was not accepted although another one was since. The event dies.
	Rejected = dispatch.Rejected
	// Misconfigured: the topic takes nothing. It is left alone, its events keep their attempts.
	Misconfigured = dispatch.Misconfigured
)

// ErrUnsent in the error of a message promises that it was not stored and will not be. It costs no attempt.
var ErrUnsent = dispatch.ErrUnsent

// Each makes a Publisher of a function that is called for each message, at most parallel times at once; the messages of
// one ordering key one after the other. An error is repeated with backoff, a panic too; Reject and Pause say more. What
// was not handed over in time is unsent, and costs no attempt.
func Each(f Func, parallel int) Publisher { return dispatch.Each(f, parallel) }

// Reject returns the error of a message that can never be accepted. The event dies as soon as its topic has accepted another one, in the
// same call or since: a topic that rejects everything is left alone instead, and its events keep their attempts.
func Reject(err error) error { return dispatch.Reject(err) }

// Pause returns the error of a message that is fine but whose topic takes none now: the topic is left alone until one
// event on trial is accepted, and its events keep their attempts.
func Pause(err error) error { return dispatch.Pause(err) }

// NewFailure is an error of a class. code is the broker's own word for it; it becomes a metric label, so it must come
// from a small set.
func NewFailure(class Class, code string, err error) *Failure {
	return dispatch.NewFailure(class, code, err)
}

// ClassOf returns the class of an error; one without a class is Retryable.
func ClassOf(err error) Class { return dispatch.ClassOf(err) }

// CodeOf returns the code of an error; one without a code has "unknown".
func CodeOf(err error) string { return dispatch.CodeOf(err) }

// Isolate sends msgs and, where the broker refuses the whole request because of one message (Refused), cuts it into parts
// until the message to blame stands alone. send performs one request and returns one Result per message.
func Isolate(ctx context.Context, msgs []Message, send func(context.Context, []Message) []Result) []Result {
	return dispatch.Isolate(ctx, msgs, send)
}

// InOrder sends messages of one ordering key, each request after the acknowledgement of the one before, up to the first
// failure. first returns how many of the messages that are left one request may hold.
func InOrder(ctx context.Context, msgs []Message, first func([]Message) int, send func(context.Context, []Message) []Result) []Result {
	return dispatch.InOrder(ctx, msgs, first, send)
}
