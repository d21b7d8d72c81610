package dispatch

import (
	"context"
	"errors"
)

// Callback delivers one message inside the process: it writes to a log, calls a
// webhook, feeds another broker. It returns the id under which the message is
// stored. It must return when ctx ends and must be safe for concurrent use. An
// error made with NewFailure has the class of its code; any other is Retryable.
type Callback func(ctx context.Context, topic string, msg Message) (messageID string, err error)

// CallbackPublisher is the Publisher for modules that bring their own delivery.
type CallbackPublisher struct {
	// Deliver is called once per message, in the order of the batch.
	Deliver Callback
	// Probe answers Ready. Nil means always ready.
	Probe func(ctx context.Context, topic string) error
}

var _ Publisher = (*CallbackPublisher)(nil)

// Publish implements Publisher. What has not been handed to Deliver when ctx ends
// is not handed over any more.
func (p *CallbackPublisher) Publish(ctx context.Context, topic string, msgs []Message) []Result {
	results := make([]Result, len(msgs))
	for i, msg := range msgs {
		err := ctx.Err()
		if err == nil {
			results[i].MessageID, err = p.Deliver(ctx, topic, msg)
		}
		if err != nil {
			results[i] = Result{Err: asFailure(err)}
		}
	}
	return results
}

// Ready implements Publisher.
func (p *CallbackPublisher) Ready(ctx context.Context, topic string) error {
	if p.Probe == nil {
		return nil
	}
	if err := p.Probe(ctx, topic); err != nil {
		return asFailure(err)
	}
	return nil
}

func asFailure(err error) error {
	if f := (*Failure)(nil); errors.As(err, &f) {
		return err
	}
	return NewFailure(CodeOf(err), err)
}
