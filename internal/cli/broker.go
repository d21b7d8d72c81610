package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// ReceivingConnections carry the streams of a consumer.
const ReceivingConnections = 4

// brokers lists the brokers that there are.
func brokers() []broker.Kind {
	return []broker.Kind{
		pubsub.Kind(),
	}
}

// BrokerKind is the kind of broker that is configured.
func BrokerKind() broker.Kind { return brokers()[0] }

// Broker is the command's broker. No connection is made yet: callers decide what an unreachable
// broker means to them.
func (a *App) Broker(ctx context.Context) (broker.Broker, error) {
	kind := BrokerKind()
	return openBroker(a, kind.Needs, func(cfg *Config) (broker.Broker, error) {
		return kind.Open(ctx, broker.Params{
			Setting: cfg.Value, PublishTimeout: cfg.Publish.PublishTimeout, UserAgent: a.userAgent(),
		})
	})
}

// Receiver is the Pub/Sub client of a consumer, which needs several connections; a publisher
// needs exactly one.
func (a *App) Receiver(ctx context.Context) (*pubsub.Client, error) {
	return openBroker(a, pubsub.Kind().Needs, func(cfg *Config) (*pubsub.Client, error) {
		return pubsub.Connect(ctx, pubsub.Config{
			Project: cfg.PubSub.Project, Emulator: cfg.PubSub.Emulator, Endpoint: cfg.PubSub.Endpoint,
			PublishTimeout: cfg.Publish.PublishTimeout, Connections: ReceivingConnections, UserAgent: a.userAgent(),
		})
	})
}

func (a *App) userAgent() string { return "outboxctl/" + a.Build.Version }

// openBroker opens a client once for a command, which closes it.
func openBroker[B broker.Broker](a *App, needs []string, open func(*Config) (B, error)) (client B, err error) {
	if known, ok := a.broker.(B); ok {
		return known, nil
	}
	cfg, err := a.Config(needs...)
	if err != nil {
		return client, err
	}
	if client, err = open(cfg); err != nil {
		return client, fault.Hint(fault.As(fault.Precondition, err),
			"gcloud auth application-default login gives credentials; --emulator uses an emulator instead")
	}
	a.broker = client
	a.OnClose(client.Close)
	return client, nil
}

// BrokerPlan is the catalogue's topics and the subscriptions that the configuration names.
func (a *App) BrokerPlan(ctx context.Context, b broker.Broker) ([]broker.PlannedTopic, error) {
	topics, err := a.Topics(ctx)
	if err != nil {
		return nil, err
	}
	return b.Plan(topics, map[string]string{"domain": a.cfg.PubSub.Subscription}), nil
}

// BrokerError names the broker that did not answer, and what to try.
func BrokerError(b broker.Broker, err error) error {
	why, advice := b.Explain(err)
	return fault.Hint(fault.Preconditionf("ask %s: %w", b, fault.Reword(err, "%s", why)), "%s", advice)
}

// EnsureError explains whether the broker does not answer, refused everything, or did half of the work.
func EnsureError(b broker.Broker, err error, actions []broker.Action) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*broker.HoldError)):
		return err
	case !errors.Is(err, broker.ErrIncomplete):
		return BrokerError(b, err)
	}
	kind, bad := fault.Precondition, 0
	for _, a := range actions {
		switch a.Outcome {
		case broker.OutcomeFailed, broker.OutcomeDiffers:
			bad++
		case broker.OutcomeCreated, broker.OutcomeReplaced:
			kind = fault.Partial
		}
	}
	return fault.Hint(fault.As(kind, fmt.Errorf("%d topics or subscriptions are not as planned", bad)),
		"the column detail tells the reason; the account needs roles/pubsub.editor to create them")
}
