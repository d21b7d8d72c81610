package rabbitmq

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// Retention: a queue keeps a message until it is acknowledged. So late may one come that nobody has
// forgotten.
const Retention = 7 * 24 * time.Hour

const (
	queueSuffix      = "-sub"
	deadLetterSuffix = "-dead-letter"
	// maxDeliveries is how often a message may fail before it is a dead letter of its queue.
	maxDeliveries = 10
)

// Plan implements broker.Broker. The dead-letter topic is a queue without an exchange of its own.
func (c *Client) Plan(topics, subscriptions map[string]string) []broker.PlannedTopic {
	return broker.Plan(topics, subscriptions, func(physical string) broker.PlannedTopic {
		return broker.PlannedTopic{
			Name: physical, Subscription: physical + queueSuffix, DeadLetterSubscription: physical + deadLetterSuffix,
		}
	})
}

// ask makes one request on a channel of its own: a refusal closes it.
func (c *Client) ask(ctx context.Context, f func(*amqp.Channel) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	l, err := c.conn.Get(ctx)
	if err != nil {
		return err
	}
	_, err = within(ctx, func() (*amqp.Channel, error) {
		ch, err := l.conn.Channel()
		if err == nil {
			err = errors.Join(f(ch), closeChannel(ch))
		}
		return ch, err
	}, func(*amqp.Channel) {})
	return err
}

func closeChannel(ch *amqp.Channel) error {
	if err := ch.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return err
	}
	return nil
}

// exchangeOf is the exchange of a topic.
func (c *Client) exchangeOf(topic string) string {
	return target{topic: topic, exchanges: c.cfg.Exchange}.exchange()
}

func (c *Client) askExchange(ctx context.Context, name string) error {
	return c.ask(ctx, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil)
	})
}

func (c *Client) hasExchange(ctx context.Context, name string) (bool, error) {
	return found(c.askExchange(ctx, name))
}

func (c *Client) hasQueue(ctx context.Context, name string) (bool, error) {
	return found(c.ask(ctx, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	}))
}

// Backlog implements broker.Measurer: what is ready in a queue. What a consumer holds is not told.
func (c *Client) Backlog(ctx context.Context, queue string) (waiting int64, err error) {
	err = c.ask(ctx, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		waiting = int64(q.Messages)
		return err
	})
	return waiting, err
}

// found: that something is missing is an answer.
func found(err error) (bool, error) {
	var answer *amqp.Error
	if errors.As(err, &answer) && answer.Code == amqp.NotFound {
		return false, nil
	}
	return err == nil, err
}

// List implements broker.Broker. AMQP tells no bindings: of the queues only the planned one is
// shown.
func (c *Client) List(ctx context.Context, plan []broker.PlannedTopic) ([]broker.Topic, error) {
	queues := make(map[string]string, len(plan))
	for _, t := range plan {
		queues[t.Name] = t.Subscription
	}
	return broker.List(plan, failure, func(t *broker.Topic) (exists bool, err error) {
		if exists, err = c.hasExchange(ctx, c.exchangeOf(t.Name)); err != nil || !exists {
			return exists, err
		}
		queue, err := c.hasQueue(ctx, queues[t.Name])
		if queue {
			t.Subscriptions = append(t.Subscriptions, queues[t.Name])
		}
		return true, err
	})
}

// Ensure implements broker.Broker. A message that no queue takes comes back to the publisher, so
// that nobody has to be held while a queue is missing.
func (c *Client) Ensure(ctx context.Context, p broker.EnsureParams) ([]broker.Action, error) {
	return broker.Ensure(ctx, p, func(t broker.PlannedTopic) []broker.Step {
		return []broker.Step{
			c.exchangeStep(t), c.queueStep(t, t.DeadLetterSubscription, nil),
			c.queueStep(t, t.Subscription, arguments(t, p.Ordered)),
		}
	}, func(err error) (broker.Outcome, string, bool) {
		var answer *amqp.Error
		if !errors.As(err, &answer) || errors.Is(err, amqp.ErrClosed) {
			return "", "", false
		}
		if answer.Code == amqp.PreconditionFailed {
			return broker.OutcomeDiffers, answer.Reason, true
		}
		return broker.OutcomeFailed, explain(err), true
	})
}

// arguments of a queue: replicated, with a limit of deliveries behind which its dead letters are,
// and with one consumer at a time where the order is kept.
func arguments(t broker.PlannedTopic, ordered bool) amqp.Table {
	args := amqp.Table{
		"x-queue-type": "quorum", "x-delivery-limit": maxDeliveries,
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": t.DeadLetterSubscription,
	}
	if ordered {
		args["x-single-active-consumer"] = true
	}
	return args
}

func (c *Client) exchangeStep(t broker.PlannedTopic) broker.Step {
	name := c.exchangeOf(t.Name)
	return broker.Step{
		Kind: broker.KindTopic, Name: t.Name, Compares: true,
		Exists: func(ctx context.Context) (bool, error) { return c.hasExchange(ctx, name) },
		Make: func(ctx context.Context) error {
			return c.ask(ctx, func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(name, amqp.ExchangeTopic, true, false, false, false, nil)
			})
		},
	}
}

func (c *Client) queueStep(t broker.PlannedTopic, queue string, args amqp.Table) broker.Step {
	return broker.Step{
		Kind: broker.KindSubscription, Name: queue, Compares: true,
		Exists: func(ctx context.Context) (bool, error) { return c.hasQueue(ctx, queue) },
		Make: func(ctx context.Context) error {
			return c.ask(ctx, func(ch *amqp.Channel) error {
				if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil || args == nil {
					return err
				}
				return ch.QueueBind(queue, bindingKey(c.cfg.RoutingKey, t.Name), c.exchangeOf(t.Name), false, nil)
			})
		},
	}
}
