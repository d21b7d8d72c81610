// Package callback is what destinations have in common that hand each event over and keep none:
// there is nothing to create and nothing to receive.
package callback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/forward"
)

// CodeMissing is the code of a topic that has nowhere to go.
const CodeMissing = "missing"

// Base implements the parts of broker.Broker about topics and subscriptions by asking a publisher
// whether each topic is ready.
type Base struct {
	broker.Plain
	// Ready asks whether a physical topic can be handed events.
	Ready func(ctx context.Context, physical string) error
	// Limits are what it takes.
	Limits wire.Limits
}

// Event is a message as it is handed over.
func Event(m dispatch.Message) forward.Event {
	return forward.Event{
		ID: m.EventID, Type: m.EventType, AggregateType: m.AggregateType, AggregateID: m.AggregateID, Namespace: m.Namespace,
		TenantID: m.TenantID, DedupeKey: m.DedupeKey, CreatedAt: m.Attributes[wire.AttrCreatedAt], OrderingKey: m.OrderingKey,
		Attempt: m.Attempt, Attributes: m.Attributes,
	}
}

// Plan implements broker.Broker: a topic for each name.
func (Base) Plan(topics, _ map[string]string) []broker.PlannedTopic {
	return broker.Plan(topics, nil, func(physical string) broker.PlannedTopic { return broker.PlannedTopic{Name: physical} })
}

// List implements broker.Broker. A destination that does not answer is an answer here: each topic
// may have its own.
func (b Base) List(ctx context.Context, plan []broker.PlannedTopic) ([]broker.Topic, error) {
	topics, _ := broker.List(plan, nil, func(t *broker.Topic) (exists bool, err error) {
		if err := b.Ready(ctx, t.Name); err != nil {
			t.State, t.Error = broker.TopicRefused, err.Error()
		}
		return true, nil
	})
	return topics, ctx.Err()
}

// Ensure implements broker.Broker. It creates nothing: it tells which topics are ready.
func (b Base) Ensure(ctx context.Context, p broker.EnsureParams) (actions []broker.Action, err error) {
	for _, t := range p.Plan {
		a := broker.Action{Kind: broker.KindTopic, Name: t.Name, Topic: t.Name, Outcome: broker.OutcomeExists}
		if failed := b.Ready(ctx, t.Name); failed != nil {
			a.Outcome, a.Detail, a.Err = broker.OutcomeFailed, failed.Error(), failed
			err = broker.ErrIncomplete
		}
		actions = append(actions, a)
	}
	return actions, err
}

// Source implements broker.Broker.
func (Base) Source(context.Context, broker.SourceParams) (broker.Source, error) {
	return nil, broker.ErrNoSource
}

// Explain implements broker.Broker.
func (Base) Explain(err error) (why, advice string) {
	return err.Error(), "outboxctl config view shows where its settings come from"
}

// Close implements broker.Broker.
func (Base) Close() error { return nil }

// CheckName implements Kind.CheckName: any name will do.
func CheckName(_, name string) error {
	if name == "" {
		return errors.New("a topic needs a name")
	}
	return nil
}

// Publisher hands over the events of logical topics, with places of its own for each topic, so that
// the calls of one do not take the room of the others.
type Publisher struct {
	base   Base
	topics map[string]string
	send   func(ctx context.Context, physical string, m dispatch.Message) error
	others dispatch.Publisher // for topics that nobody has named
	each   map[string]dispatch.Publisher
}

// NewPublisher hands events to send, so many of a topic at once, each for at most so long.
func (b Base) NewPublisher(
	topics map[string]string, parallel int, within time.Duration,
	send func(ctx context.Context, physical string, m dispatch.Message) error,
) *Publisher {
	p := &Publisher{base: b, topics: topics, send: send, each: map[string]dispatch.Publisher{}}
	p.others = dispatch.EachWithin(p.one, parallel, within)
	for logical := range topics {
		p.each[logical] = dispatch.EachWithin(p.one, parallel, within)
	}
	return p
}

// one is the dispatch.Func of all topics.
func (p *Publisher) one(ctx context.Context, topic string, m dispatch.Message) error {
	physical, known := p.topics[topic]
	if !known {
		return errNoTopic(topic)
	}
	return p.send(ctx, physical, m)
}

func errNoTopic(topic string) error {
	return dispatch.NewFailure(dispatch.Misconfigured, CodeMissing, fmt.Errorf("no topic %q is configured", topic))
}

// Ready implements dispatch.Publisher.
func (p *Publisher) Ready(ctx context.Context, topic string) error {
	physical, known := p.topics[topic]
	if !known {
		return errNoTopic(topic)
	}
	return p.base.Ready(ctx, physical)
}

// Limits implements dispatch.Publisher.
func (p *Publisher) Limits(string) wire.Limits { return p.base.Limits }

// Publish implements dispatch.Publisher.
func (p *Publisher) Publish(ctx context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	if own := p.each[topic]; own != nil {
		return own.Publish(ctx, topic, msgs)
	}
	return p.others.Publish(ctx, topic, msgs)
}
