package dispatch

import (
	"context"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// The fields of messages and results. The public package dispatch has types with the same
// fields, which its documentation explains, so that one converts to the other.
type (
	messageFields = struct {
		EventID                               string
		Data                                  []byte
		Attributes                            map[string]string
		OrderingKey                           string
		EventType, AggregateType, AggregateID string
		Namespace, TenantID, DedupeKey        string
		Seq                                   int64
		CopyOf                                string
		Attempt                               int
	}
	resultFields = struct {
		MessageID string
		Err       error
	}
)

// Message is one event in the form a broker stores: the row's payload bytes, unchanged, and
// its attributes.
type Message messageFields

// Result is the broker's answer for one message.
type Result resultFields

// Publisher hands messages to a broker. What it promises stands at the interface of the
// public package dispatch.
type Publisher = Foreign[Message, Result]

// Foreign is a Publisher with message and result types of its own.
type Foreign[M, R any] interface {
	Publish(ctx context.Context, topic string, msgs []M) []R
	Limits(topic string) wire.Limits
	Ready(ctx context.Context, topic string) error
}

// Adapt makes a Publisher of a foreign one.
func Adapt[M ~messageFields, R ~resultFields](p Foreign[M, R]) Publisher {
	return adapted[M, R]{p}
}

type adapted[M ~messageFields, R ~resultFields] struct{ Foreign[M, R] }

func (a adapted[M, R]) Publish(ctx context.Context, topic string, msgs []Message) []Result {
	theirs := column(msgs, func(m Message) M { return M(m) })
	return column(a.Foreign.Publish(ctx, topic, theirs), func(r R) Result { return Result(r) })
}
