// Package rabbitmq is the Publisher for RabbitMQ, on connections that your program makes.
package rabbitmq

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxctl/outboxctl/dispatch"
	broker "github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
)

// Options say where in RabbitMQ events go. They are templates: {topic} is the physical topic;
// {event_type}, {namespace} and {aggregate_type}, in RoutingKey only, are the event's.
type Options struct {
	// Exchange is "{topic}" unless it is set: one exchange for each topic.
	Exchange string
	// RoutingKey is "{topic}.{event_type}" unless it is set.
	RoutingKey string
}

// Publisher publishes to RabbitMQ until it is closed.
type Publisher interface {
	dispatch.Publisher
	// Close ends the connection.
	Close() error
}

// New returns a Publisher to the topics that stand for the logical ones, which are the keys of
// topics. dial makes the connection, at first and again whenever it has ended; it belongs to the
// Publisher. Do not let it recover by itself: amqp.Config.Recovery stays nil.
func New(dial func() (*amqp.Connection, error), topics map[string]string, o Options) Publisher {
	client := broker.Over(dial, broker.Config{Exchange: o.Exchange, RoutingKey: o.RoutingKey})
	return publisher{client.NewPublisher(topics), client}
}

type publisher struct {
	dispatch.Publisher
	client *broker.Client
}

func (p publisher) Close() error { return p.client.Close() }
