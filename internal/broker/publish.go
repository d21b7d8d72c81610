package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
)

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

// Publisher is the dispatch.Publisher of a broker.
type Publisher struct {
	// Topics are the physical names of the logical ones, Noun is what the broker calls one.
	Topics map[string]string
	Noun   string
	// CheckName is the Kind's. Missing and Invalid are the codes of a topic that has no name, and
	// of one whose name the broker would refuse.
	CheckName        func(kind, name string) error
	Missing, Invalid string
	// Timeout bounds a Publish whose caller does not.
	Timeout time.Duration
	// Failure gives an answer to Ask its class.
	Failure func(error) *dispatch.Failure
	// Send publishes messages to a physical topic, Ask asks for the topic, and Takes is what one
	// message of a logical topic may be.
	Send  func(ctx, begin context.Context, name string, msgs []dispatch.Message) []dispatch.Result
	Ask   func(ctx context.Context, name string) error
	Takes func(topic string) wire.Limits
}

var _ dispatch.Publisher = Publisher{}

// Publish implements dispatch.Publisher. The last quarter of the time is for answers: what would be
// sent after begin has ended is unsent.
func (p Publisher) Publish(
	ctx context.Context, topic string, msgs []dispatch.Message,
) []dispatch.Result {
	name, err := p.name(topic)
	if err != nil || len(msgs) == 0 {
		return All(len(msgs), err)
	}
	end, limited := ctx.Deadline()
	if !limited {
		end = time.Now().Add(p.Timeout)
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	begin, stop := context.WithDeadline(ctx, end.Add(-time.Until(end)/4))
	defer stop()
	if err := begin.Err(); err != nil {
		return All(len(msgs), dispatch.Unsent(err))
	}
	return p.Send(ctx, begin, name, msgs)
}

// name is the broker's of a logical topic.
func (p Publisher) name(topic string) (string, error) {
	name, ok := p.Topics[topic]
	if !ok {
		err := fmt.Errorf("no %s configured for %q", p.Noun, topic)
		return "", dispatch.NewFailure(dispatch.Misconfigured, p.Missing, err)
	}
	if err := p.CheckName(KindTopic, name); err != nil {
		return "", dispatch.NewFailure(dispatch.Misconfigured, p.Invalid, err)
	}
	return name, nil
}

// Ready implements dispatch.Publisher.
func (p Publisher) Ready(ctx context.Context, topic string) error {
	name, err := p.name(topic)
	if err != nil {
		return err
	}
	if err := p.Ask(ctx, name); err != nil {
		return p.Failure(err)
	}
	return nil
}

// Limits implements dispatch.Publisher.
func (p Publisher) Limits(topic string) wire.Limits { return p.Takes(topic) }

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
