package rabbitmq

import (
	"context"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// Kind is RabbitMQ.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "rabbitmq", Title: "RabbitMQ", Retention: Retention, CheckName: CheckName, Open: open,
	}
}

func open(_ context.Context, p broker.Params) (broker.Broker, error) {
	return Connect(Config{
		URL: p.Setting("rabbitmq.url"), Username: p.Setting("rabbitmq.username"),
		Files: broker.Files{
			CA: p.Setting("rabbitmq.tls_ca"), Cert: p.Setting("rabbitmq.tls_cert"), Key: p.Setting("rabbitmq.tls_key"),
			Password: p.Setting("rabbitmq.password_file"),
		},
		Exchange: p.Setting("rabbitmq.exchange"), RoutingKey: p.Setting("rabbitmq.routing_key"),
		PublishTimeout: p.PublishTimeout, Name: p.UserAgent,
	})
}

var _ broker.Broker = (*Client)(nil)

// String implements broker.Broker.
func (c *Client) String() string { return fmt.Sprintf("RabbitMQ (%s)", c.server()) }

// Explain implements broker.Broker.
func (c *Client) Explain(err error) (why, advice string) {
	return explain(err), "outboxctl config view shows where rabbitmq.url and the account come from"
}

// Advice implements broker.Broker.
func (c *Client) Advice() string { return "" }

// Findings implements broker.Broker.
func (c *Client) Findings(bool) []broker.Finding { return nil }

// Source implements broker.Broker.
func (c *Client) Source(context.Context, broker.SourceParams) (broker.Source, error) {
	return nil, broker.ErrNoSource
}
