package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
)

// Publish is the head that the Publishers of brokers share: err is what is wrong with the topic,
// and the call takes as long as its caller lets it, or timeout. The last quarter of the time is for
// answers: what would be sent after begin has ended is unsent.
func Publish(
	ctx context.Context, timeout time.Duration, messages int, err error, send func(ctx, begin context.Context) []dispatch.Result,
) []dispatch.Result {
	if err != nil || messages == 0 {
		return All(messages, err)
	}
	end, limited := ctx.Deadline()
	if !limited {
		end = time.Now().Add(timeout)
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	begin, stop := context.WithDeadline(ctx, end.Add(-time.Until(end)/4))
	defer stop()
	if err := begin.Err(); err != nil {
		return All(messages, dispatch.Unsent(err))
	}
	return send(ctx, begin)
}

// All is the same answer to each of the messages.
func All(messages int, err error) []dispatch.Result {
	results := make([]dispatch.Result, messages)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// Unsent is the failure of a message that never left. It keeps its class: what a broker says of our
// credentials, or of the topic, holds for the topic.
func Unsent(f *dispatch.Failure) *dispatch.Failure {
	return dispatch.NewFailure(f.Class, f.Code, unsentError{f.Err})
}

// unsentError is why a message was not sent, in its own words.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// Is implements errors.Is.
func (unsentError) Is(target error) bool { return target == dispatch.ErrUnsent }

// Physical is the broker's name of a logical topic. The codes are those of a topic that has none,
// and of a name that the broker would refuse; noun is what it calls a topic.
func Physical(
	topics map[string]string, topic, noun string, check func(kind, name string) error, missing, invalid string,
) (string, error) {
	name, ok := topics[topic]
	if !ok {
		return "", dispatch.NewFailure(dispatch.Misconfigured, missing, fmt.Errorf("no %s configured for %q", noun, topic))
	}
	if err := check(KindTopic, name); err != nil {
		return "", dispatch.NewFailure(dispatch.Misconfigured, invalid, err)
	}
	return name, nil
}

// The codes of failures that no broker has a name for. They are metric labels.
const (
	CodeTLS        = "tls"
	CodeTimeout    = "timeout"
	CodeConnection = "connection"
)

// ClassOf is what an error means that is no answer of the broker. It is retryable unless the server
// does not prove who it is: waiting is safe, dead-lettering a good event is not.
func ClassOf(err error) (dispatch.Class, string) {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return dispatch.Misconfigured, CodeTLS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return dispatch.Retryable, CodeTimeout
	}
	return dispatch.Retryable, CodeConnection
}
