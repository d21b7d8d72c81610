package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/exec"
	"github.com/outboxctl/outboxctl/internal/broker/http"
	"github.com/outboxctl/outboxctl/internal/broker/kafka"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// brokers lists the brokers that there are.
func brokers() []broker.Kind {
	return []broker.Kind{
		pubsub.Kind(),
		nats.Kind(),
		kafka.Kind(),
		rabbitmq.Kind(),
		http.Kind(),
		exec.Kind(),
	}
}

// BrokerKind is the kind of broker that is configured.
func (c *Config) BrokerKind() broker.Kind {
	for _, kind := range brokers() {
		if kind.Name == c.Broker {
			return kind
		}
	}
	return brokers()[0]
}

// BrokerKind is that of the configuration, which must have been read.
func (a *App) BrokerKind() broker.Kind { return a.cfg.BrokerKind() }

// BrokerSetUp reports whether everything is set without which the broker cannot be opened.
func (c *Config) BrokerSetUp() bool {
	return !slices.ContainsFunc(c.BrokerKind().Needs, func(name string) bool { return c.Value(name) == "" })
}

// Subscription is the one that consume reads from.
func (c *Config) Subscription() string { return c.Value(c.BrokerKind().Subscription) }

// Broker is the command's broker. No connection is made yet: callers decide what an unreachable
// broker means to them.
func (a *App) Broker(ctx context.Context) (broker.Broker, error) {
	a.opening.Lock()
	defer a.opening.Unlock()
	if a.broker != nil {
		return a.broker, nil
	}
	cfg, err := a.BrokerConfig()
	if err != nil {
		return nil, err
	}
	kind := cfg.BrokerKind()
	client, err := kind.Open(context.WithoutCancel(ctx), broker.Params{
		Setting: cfg.Value, PublishTimeout: cfg.Publish.PublishTimeout, UserAgent: "outboxctl/" + a.Build.Version, Log: a.Err,
	})
	if err != nil {
		return nil, fault.Hint(fault.As(fault.Precondition, err), "%s", kind.Remedy)
	}
	a.broker = client
	a.OnClose(client.Close)
	return client, nil
}

// subscriptionSet reports whether somebody named the subscription.
func (c *Config) subscriptionSet() bool {
	name := c.BrokerKind().Subscription
	return name != "" && c.Origin(name) != OriginDefault
}

// BrokerPlan is the catalogue's topics and their subscriptions.
func (a *App) BrokerPlan(ctx context.Context, b broker.Broker) ([]broker.PlannedTopic, error) {
	plan, err := a.PlanTopic(ctx, b, "")
	if errors.Is(err, errAmbiguous) { // nobody asks for it here
		topics, err := a.Topics(ctx)
		return b.Plan(topics, nil), err
	}
	return plan, err
}

// errAmbiguous means that the subscription that the configuration names may be any topic's.
var errAmbiguous = errors.New("the catalogue has several topics")

// PlanTopic is the catalogue's topics, or that one, and their subscriptions. The subscription that
// the configuration names belongs to that topic, to the only one, or to domain.
func (a *App) PlanTopic(ctx context.Context, b broker.Broker, topic string) ([]broker.PlannedTopic, error) {
	types, err := a.Registry(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := a.TopicsOf(types.Catalogue)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	if topic != "" {
		if topics, err = chooseTopics(topics, []string{topic}); err != nil {
			return nil, err
		}
	}
	switch _, domain := topics[domainTopic]; {
	case !a.cfg.subscriptionSet():
		if types.Source == registry.PackFinderz {
			names[domainTopic] = a.cfg.Subscription()
		}
	case len(topics) == 1:
		for logical := range topics {
			names[logical] = a.cfg.Subscription()
		}
	case domain:
		names[domainTopic] = a.cfg.Subscription()
	default:
		return nil, fault.Hint(fault.Usagef("subscription %s: %w", a.cfg.Subscription(), errAmbiguous),
			"--topic says whose it is: %s", strings.Join(slices.Sorted(maps.Keys(topics)), ", "))
	}
	return b.Plan(topics, names), nil
}

// domainTopic is the built-in catalogue's main topic, whose subscription has a setting.
const domainTopic = "domain"

// chooseTopics narrows topics to those logical names.
func chooseTopics(topics map[string]string, names []string) (map[string]string, error) {
	chosen := map[string]string{}
	for _, name := range names {
		physical, known := topics[name]
		if !known {
			return nil, fault.Hint(fault.NotFoundf("the catalogue has no topic %s", name), "it has %s",
				strings.Join(slices.Sorted(maps.Keys(topics)), ", "))
		}
		chosen[name] = physical
	}
	return chosen, nil
}

// Subscriptions are those that a consumer reads: the one that is configured, or else one for each
// of the topics; where none is given, for those of the event types; and where these are not given
// either, for all.
func (a *App) Subscriptions(ctx context.Context, b broker.Broker, topics, eventTypes []string) ([]string, error) {
	if a.cfg.subscriptionSet() {
		if len(topics) > 0 {
			return nil, fault.Usagef("specify --topic or the subscription %s, not both", a.cfg.Subscription())
		}
		return []string{a.cfg.Subscription()}, nil
	}
	types, err := a.Registry(ctx)
	if err != nil {
		return nil, err
	}
	all, err := a.TopicsOf(types.Catalogue)
	if err != nil {
		return nil, err
	}
	if len(topics) == 0 {
		for _, name := range eventTypes {
			found := slices.DeleteFunc(types.Names(), func(n outbox.Name) bool { return n.Name != name })
			if len(found) == 0 {
				topics = nil // nobody knows where events of a type come from that the catalogue does not have
				break
			}
			for _, n := range found {
				topics = append(topics, n.Topic)
			}
		}
	}
	if len(topics) > 0 {
		if all, err = chooseTopics(all, topics); err != nil {
			return nil, err
		}
	}
	names := map[string]string{}
	if types.Source == registry.PackFinderz {
		names[domainTopic] = a.cfg.Subscription()
	}
	var subscriptions []string
	for _, t := range b.Plan(all, names) {
		if t.Subscription != "" {
			subscriptions = append(subscriptions, t.Subscription)
		}
	}
	return subscriptions, nil
}

// BrokerError names the broker that did not answer, and what to try.
func BrokerError(b broker.Broker, err error) error {
	why, advice := b.Explain(err)
	return fault.Hint(fault.Preconditionf("ask %s: %w", b, fault.Reword(err, "%s", why)), "%s", advice)
}

// EnsureError explains whether the broker does not answer, refused everything, or did half of the
// work.
func (a *App) EnsureError(b broker.Broker, err error, actions []broker.Action) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, broker.ErrIncomplete):
		return BrokerError(b, err)
	}
	kind, bad, hint := fault.Precondition, 0, "the column detail tells the reason; "+a.cfg.BrokerKind().Rights
	for _, action := range actions {
		switch action.Outcome {
		case broker.OutcomeOrphaned:
			bad++
			hint = "topics that have lost subscriptions were left alone; the steps above lose no event"
		case broker.OutcomeFailed, broker.OutcomeDiffers:
			bad++
		case broker.OutcomeCreated:
			kind = fault.Partial
		}
	}
	return fault.Hint(fault.As(kind, fmt.Errorf("%d topics or subscriptions are not as planned", bad)),
		"%s", hint)
}
