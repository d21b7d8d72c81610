package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// ReceivingConnections carry the streams of a consumer.
const ReceivingConnections = 4

// Broker is the command's Pub/Sub client. No connection is made yet: callers decide what an unreachable broker means to
// them.
func (a *App) Broker(ctx context.Context) (*pubsub.Client, error) { return a.BrokerOver(ctx, 1) }

// BrokerOver is Broker with a number of connections: a consumer needs several, a publisher exactly one.
func (a *App) BrokerOver(ctx context.Context, connections int) (*pubsub.Client, error) {
	if a.broker != nil {
		return a.broker, nil
	}
	cfg, err := a.Config("pubsub.project")
	if err != nil {
		return nil, err
	}
	client, err := pubsub.Connect(ctx, pubsub.Config{
		Project:        cfg.PubSub.Project,
		Emulator:       cfg.PubSub.Emulator,
		Endpoint:       cfg.PubSub.Endpoint,
		PublishTimeout: cfg.Publish.PublishTimeout,
		Connections:    connections,
		UserAgent:      "outboxctl/" + a.Build.Version,
	})
	if err != nil {
		return nil, fault.Hint(fault.As(fault.Precondition, err),
			"gcloud auth application-default login gives credentials; --emulator uses an emulator instead")
	}
	a.broker = client
	a.OnClose(client.Close)
	return client, nil
}

// BrokerPlan is the catalogue's topics and the subscriptions that the configuration names.
func (a *App) BrokerPlan(ctx context.Context) ([]pubsub.PlannedTopic, error) {
	topics, err := a.Topics(ctx)
	if err != nil {
		return nil, err
	}
	return pubsub.Plan(topics, map[string]string{"domain": a.cfg.PubSub.Subscription}), nil
}

// BrokerError names the broker that did not answer, and what to try.
func BrokerError(cfg *Config, err error) error {
	where := "project " + cfg.PubSub.Project
	hint := "outboxctl config view shows where pubsub.project and pubsub.emulator come from"
	if cfg.PubSub.Emulator != "" {
		where = fmt.Sprintf("%s on the emulator at %s", where, cfg.PubSub.Emulator)
		hint += "; outboxctl dev starts a local stack"
	}
	return fault.Hint(fault.Preconditionf("ask Pub/Sub (%s): %w", where, fault.Reword(err, "%s", pubsub.Explain(err))), "%s", hint)
}

// EnsureError explains whether the broker does not answer, refused everything, or did half of the work.
func EnsureError(cfg *Config, err error, actions []pubsub.Action) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*pubsub.HoldError)):
		return err
	case !errors.Is(err, pubsub.ErrIncomplete):
		return BrokerError(cfg, err)
	}
	kind, bad := fault.Precondition, 0
	for _, a := range actions {
		switch a.Outcome {
		case pubsub.OutcomeFailed, pubsub.OutcomeDiffers:
			bad++
		case pubsub.OutcomeCreated, pubsub.OutcomeReplaced:
			kind = fault.Partial
		}
	}
	return fault.Hint(fault.As(kind, fmt.Errorf("%d topics or subscriptions are not as planned", bad)),
		"the column detail tells the reason; the account needs roles/pubsub.editor to create them")
}
