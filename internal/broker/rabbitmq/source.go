package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// deliveryCount is the header in which a quorum queue counts.
const deliveryCount = "x-delivery-count"

// held is how many messages may wait, behind a failed one of their key or to be given back, besides
// those under way.
const held = 256

// source is a queue.
type source struct {
	broker.Subscription
	client      *Client
	queue       string
	concurrency int
}

// Source implements broker.Broker.
func (c *Client) Source(ctx context.Context, p broker.SourceParams) (broker.Source, error) {
	exists, err := c.hasQueue(ctx, p.Subscription)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up queue %s: %w", p.Subscription, err)
	case !exists:
		return nil, fmt.Errorf("queue %s: %w", p.Subscription, broker.ErrNoSubscription)
	}
	return &source{
		client: c, queue: p.Subscription, concurrency: max(1, p.Concurrency),
		// AMQP does not tell how a queue was declared: this is what topic ensure makes, and to keep
		// a key's order where nobody asked for it costs nothing.
		Subscription: broker.Subscription{
			Failure: failure, Promise: broker.About{Ordered: true, MaxDeliveries: maxDeliveries},
		},
	}, nil
}

// Receive implements broker.Source.
func (s *source) Receive(ctx context.Context, f func(broker.Delivery)) error {
	l, err := s.client.conn.Get(ctx)
	if err != nil {
		return err
	}
	ch, err := l.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Qos(s.concurrency+held, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(s.queue, "outboxctl", false, false, false, false, nil)
	if err != nil {
		return s.explain(err)
	}
	pump := broker.NewPump(s.concurrency)
	defer pump.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-deliveries:
			if !ok {
				return s.explain(reason(closed))
			}
			pump.Hand(ctx, delivery(ctx, d), f)
		}
	}
}

// reason is why a channel was closed.
func reason(closed chan *amqp.Error) error {
	if answer := <-closed; answer != nil {
		return answer
	}
	return errors.New("the queue was deleted, or its consumer cancelled")
}

func (s *source) explain(err error) error {
	var answer *amqp.Error
	if errors.As(err, &answer) && answer.Code == amqp.NotFound {
		return fmt.Errorf("queue %s: %w: %w", s.queue, broker.ErrNoSubscription, err)
	}
	return err
}

func delivery(ctx context.Context, from amqp.Delivery) broker.Delivery {
	d := broker.Delivery{ID: from.MessageId, Body: from.Body, Attributes: make(map[string]string, len(from.Headers)), Attempt: 1}
	for name, value := range from.Headers {
		switch v := value.(type) {
		case string:
			if name == orderingKeyHeader {
				d.OrderingKey = v
				continue
			}
			d.Attributes[name] = v
		case int64:
			if name == deliveryCount {
				d.Attempt = int(v) + 1
			}
		}
	}
	d.Message = &message{ctx: ctx, delivery: from, attempt: d.Attempt}
	return d
}

// message is one that is being handled.
type message struct {
	ctx      context.Context
	delivery amqp.Delivery
	attempt  int
	once     sync.Once
}

// Ack implements broker.Message.
func (m *message) Ack() {
	m.once.Do(func() { _ = m.delivery.Ack(false) }) // lost: it comes again, and the guard knows it
}

// Nack implements broker.Message. A queue would deliver it again at once, so it is kept for a
// while, unless the consumer ends.
func (m *message) Nack() {
	m.once.Do(func() {
		_ = wait.For(m.ctx, broker.Pause(m.attempt)) // it is given back either way
		_ = m.delivery.Nack(false, true)
	})
}
