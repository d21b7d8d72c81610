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

// Publisher sends the dispatcher's batches to exchanges, and waits for the broker's confirmations.
type Publisher struct {
	client *Client
	topics map[string]string
}

var _ dispatch.Publisher = (*Publisher)(nil)

// NewPublisher publishes to the physical topics that stand for logical ones.
func (c *Client) NewPublisher(topics map[string]string) dispatch.Publisher {
	return &Publisher{client: c, topics: maps.Clone(topics)}
}

// Publish implements [dispatch.Publisher].
func (p *Publisher) Publish(ctx context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	to, err := p.target(topic)
	return broker.Publish(ctx, p.client.cfg.PublishTimeout, len(msgs), err, func(ctx, begin context.Context) []dispatch.Result {
		send := func(ctx context.Context, msgs []dispatch.Message) []dispatch.Result {
			return p.send(ctx, begin, to, msgs)
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
	})
}

// send publishes on a channel of its own.
func (p *Publisher) send(ctx, begin context.Context, to target, msgs []dispatch.Message) []dispatch.Result {
	if err := begin.Err(); err != nil { // there may be room, but it is too late
		return broker.All(len(msgs), dispatch.Unsent(err))
	}
	if err := p.client.room.Acquire(begin, 1); err != nil {
		return broker.All(len(msgs), dispatch.Unsent(err))
	}
	defer p.client.room.Release(1)
	l, err := p.client.conn.Get(begin)
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

// target resolves a logical topic.
func (p *Publisher) target(topic string) (target, error) {
	physical, err := broker.Physical(p.topics, topic, "RabbitMQ topic", CheckName, "404", "404")
	return target{topic: physical, exchanges: p.client.cfg.Exchange, routingKeys: p.client.cfg.RoutingKey}, err
}

// Ready implements [dispatch.Publisher]: it asks for the exchange. That no queue is bound to it is
// seen by the first message.
func (p *Publisher) Ready(ctx context.Context, topic string) error {
	to, err := p.target(topic)
	if err != nil {
		return err
	}
	err = p.client.ask(ctx, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(to.exchange(), amqp.ExchangeTopic, true, false, false, false, nil)
	})
	if err != nil {
		return failure(err)
	}
	return nil
}

// Limits implements [dispatch.Publisher].
func (p *Publisher) Limits(string) wire.Limits {
	if l, ok := p.client.conn.Now(); ok && l.conn.Config.FrameSize > 0 {
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
