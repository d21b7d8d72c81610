package pubsub

import (
	"context"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// Kind is Google Cloud Pub/Sub, or an emulator of it.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "pubsub", Title: "Pub/Sub", Needs: []string{"pubsub.project"},
		Retention: Retention, CheckName: ValidateName, Open: open,
	}
}

func open(ctx context.Context, p broker.Params) (broker.Broker, error) {
	return Connect(ctx, Config{
		Project: p.Setting("pubsub.project"), Emulator: p.Setting("pubsub.emulator"),
		Endpoint: p.Setting("pubsub.endpoint"), PublishTimeout: p.PublishTimeout, UserAgent: p.UserAgent,
	})
}

var _ broker.Broker = (*Client)(nil)

// String implements broker.Broker.
func (c *Client) String() string {
	if c.Emulated() {
		return fmt.Sprintf("Pub/Sub (project %s on the emulator at %s)", c.cfg.Project, c.cfg.Emulator)
	}
	return fmt.Sprintf("Pub/Sub (project %s)", c.cfg.Project)
}

// Plan implements broker.Broker.
func (c *Client) Plan(topics, subscriptions map[string]string) []broker.PlannedTopic {
	return Plan(topics, subscriptions)
}

// Explain implements broker.Broker.
func (c *Client) Explain(err error) (why, advice string) {
	advice = "outboxctl config view shows where pubsub.project and pubsub.emulator come from"
	if c.Emulated() {
		advice += "; outboxctl dev starts a local stack"
	}
	return explain(err), advice
}

// Advice implements broker.Broker: an emulator has no service account.
func (c *Client) Advice() string {
	if c.Emulated() {
		return ""
	}
	return fmt.Sprintf("dead letters move once Pub/Sub's service account of project %s may publish to the "+
		"dead-letter topics (roles/pubsub.publisher) and acknowledge on the subscriptions (roles/pubsub.subscriber)",
		c.cfg.Project)
}
