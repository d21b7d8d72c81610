package nats

import (
	"context"
	"fmt"
	"strconv"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// Kind is NATS JetStream.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "nats", Title: "NATS", Retention: Retention, CheckName: CheckName, Open: open,
	}
}

func open(_ context.Context, p broker.Params) (broker.Broker, error) {
	replicas, _ := strconv.Atoi(p.Setting("nats.replicas"))
	return Connect(Config{
		URL: p.Setting("nats.url"), CredsFile: p.Setting("nats.creds_file"), Username: p.Setting("nats.username"),
		Files: broker.Files{
			CA: p.Setting("nats.tls_ca"), Cert: p.Setting("nats.tls_cert"), Key: p.Setting("nats.tls_key"),
			Password: p.Setting("nats.password_file"),
		},
		NoDedupe: p.Setting("nats.dedupe") == "false", Replicas: replicas, PublishTimeout: p.PublishTimeout, Name: p.UserAgent,
	})
}

var _ broker.Broker = (*Client)(nil)

// String implements broker.Broker.
func (c *Client) String() string { return fmt.Sprintf("NATS (%s)", c.servers()) }

// Explain implements broker.Broker.
func (c *Client) Explain(err error) (why, advice string) {
	return explain(err), "outboxctl config view shows where nats.url and the credentials come from"
}

// Advice implements broker.Broker.
func (c *Client) Advice() string { return "" }

// Findings implements broker.Broker.
func (c *Client) Findings(bool) []broker.Finding { return nil }

// Source implements broker.Broker.
func (c *Client) Source(context.Context, broker.SourceParams) (broker.Source, error) {
	return nil, broker.ErrNoSource
}
