package rabbitmq

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
)

const (
	// orderingKeyHeader carries the ordering key.
	orderingKeyHeader = "ordering_key"
	// messageBytes is what a broker takes unless it was told otherwise, since RabbitMQ 4; older ones
	// take more.
	messageBytes = 16 << 20
	// defaultFrame is what headers must fit into as long as the broker has not told another size.
	defaultFrame = 128 << 10
	// frameReserve is kept of a frame for the other properties, the framing of headers and an ordering
	// key.
	frameReserve = 4 << 10
	// nameBytes is what AMQP takes in the name of an exchange or a header, and in a routing key.
	nameBytes = 255
)

// NewPublisher publishes to the exchanges of the physical topics that stand for logical ones, and
// waits for the broker's confirmations.
func (c *Client) NewPublisher(topics map[string]string) dispatch.Publisher {
	return broker.Publisher{
		Topics: maps.Clone(topics), Noun: "RabbitMQ topic", CheckName: CheckName, Missing: "404",
		Invalid: "404", Timeout: c.cfg.PublishTimeout, Send: c.publish, Failure: failure,
		Takes: func(string) wire.Limits { return c.limits() },
		// That no queue is bound to the exchange is seen by the first message.
		Ask: func(ctx context.Context, topic string) error {
			return c.askExchange(ctx, c.exchangeOf(topic))
		},
	}
}

func (c *Client) publish(
	ctx, begin context.Context, topic string, msgs []dispatch.Message,
) []dispatch.Result {
	to := target{topic: topic, exchanges: c.cfg.Exchange, routingKeys: c.cfg.RoutingKey}
	send := func(ctx context.Context, msgs []dispatch.Message) []dispatch.Result {
		return c.send(ctx, begin, to, msgs)
	}
	if msgs[0].OrderingKey != "" {
		return dispatch.InOrder(ctx, msgs, func([]dispatch.Message) int { return 1 }, send)
	}
	results := make([]dispatch.Result, len(msgs))
	var parts sync.WaitGroup
	for from := 0; from < len(msgs); from += requestMessages {
		part := msgs[from:min(from+requestMessages, len(msgs))]
		parts.Go(func() { copy(results[from:], dispatch.Isolate(ctx, part, send)) })
	}
	parts.Wait()
	return dispatch.Proven(results)
}

// send publishes on a channel of its own.
func (c *Client) send(ctx, begin context.Context, to target, msgs []dispatch.Message) []dispatch.Result {
	if err := begin.Err(); err != nil { // there may be room, but it is too late
		return broker.All(len(msgs), dispatch.Unsent(err))
	}
	if err := c.room.Acquire(begin, 1); err != nil {
		return broker.All(len(msgs), dispatch.Unsent(err))
	}
	defer c.room.Release(1)
	l, err := c.conn.Get(begin)
	if err != nil {
		return broker.All(len(msgs), broker.Unsent(failure(err)))
	}
	if why := l.blocked.Load(); why != nil {
		return broker.All(len(msgs), broker.Unsent(dispatch.NewFailure(dispatch.Retryable, codeBlocked,
			fmt.Errorf("the broker takes nothing now: %s", *why))))
	}
	ch, err := l.take(begin)
	if err != nil {
		return broker.All(len(msgs), broker.Unsent(failure(err)))
	}
	defer l.give(ch)
	return ch.publish(ctx, to, msgs)
}

func publishing(m *dispatch.Message) amqp.Publishing {
	headers := make(amqp.Table, len(m.Attributes)+1)
	for name, value := range m.Attributes {
		headers[name] = value
	}
	if m.OrderingKey != "" {
		headers[orderingKeyHeader] = m.OrderingKey
	}
	p := amqp.Publishing{
		Headers: headers, ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: m.EventID, Body: m.Data,
	}
	if len(m.EventType) <= nameBytes {
		p.Type = m.EventType
	}
	return p
}

// target is where the messages of a topic go.
type target struct{ topic, exchanges, routingKeys string }

func (t target) exchange() string { return strings.ReplaceAll(t.exchanges, "{topic}", t.topic) }

func (t target) routingKey(m *dispatch.Message) string {
	if !strings.Contains(t.routingKeys, "{") {
		return t.routingKeys
	}
	return strings.NewReplacer(
		"{topic}", t.topic, "{event_type}", m.EventType, "{namespace}", m.Namespace, "{aggregate_type}", m.AggregateType,
	).Replace(t.routingKeys)
}

// limits are those of a broker with frames of the size that it has told.
func (c *Client) limits() wire.Limits {
	if l, ok := c.conn.Now(); ok && l.conn.Config.FrameSize > 0 {
		return limits(l.conn.Config.FrameSize)
	}
	return limits(defaultFrame)
}

// limits of a broker with frames of that size, into one of which the headers of a message must fit.
func limits(frame int) wire.Limits {
	return wire.Limits{
		MessageBytes: messageBytes, Attributes: 100, AttributeNameBytes: nameBytes, AttributeValueBytes: frame - frameReserve,
		AttributesBytes: frame - frameReserve, CloudEventsPrefix: "cloudEvents_",
	}
}
