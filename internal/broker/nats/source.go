package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// source is a durable pull consumer.
type source struct {
	broker.Subscription
	consumer    jetstream.Consumer
	concurrency int
	ackWait     time.Duration
}

// Source implements broker.Broker.
func (c *Client) Source(ctx context.Context, p broker.SourceParams) (broker.Source, error) {
	found, err := c.consumer(ctx, p.Subscription)
	if err != nil {
		return nil, err
	}
	config := found.CachedInfo().Config
	s := &source{consumer: found, concurrency: max(1, p.Concurrency), ackWait: config.AckWait}
	s.Failure = failure
	s.Promise.Ordered = config.MaxAckPending == 1
	s.Promise.MaxDeliveries = max(0, config.MaxDeliver)
	if config.AckPolicy != jetstream.AckExplicitPolicy {
		s.Promise.Warning = "the consumer does not wait for acknowledgements: what a killed worker held is lost"
	}
	return s, nil
}

// consumer finds a consumer, with what the server knows of it now, in the stream that has one of
// this name.
func (c *Client) consumer(ctx context.Context, name string) (found jetstream.Consumer, err error) {
	err = c.call(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		streams := js.StreamNames(ctx)
		for stream := range streams.Name() {
			consumer, err := js.Consumer(ctx, stream, name)
			switch {
			case err == nil:
				found = consumer
				return nil
			case !errors.Is(err, jetstream.ErrConsumerNotFound):
				return err
			}
		}
		return streams.Err()
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up consumer %s: %w", name, err)
	case found == nil:
		return nil, fmt.Errorf("consumer %s: %w", name, broker.ErrNoSubscription)
	}
	return found, nil
}

// Backlog implements broker.Measurer.
func (c *Client) Backlog(ctx context.Context, subscription string) (int64, error) {
	found, err := c.consumer(ctx, subscription)
	if err != nil {
		return 0, err
	}
	info := found.CachedInfo()
	return int64(info.NumPending) + int64(info.NumAckPending), nil
}

// Receive implements broker.Source.
func (s *source) Receive(ctx context.Context, f func(broker.Delivery)) error {
	iter, err := s.consumer.Messages(jetstream.PullMaxMessages(s.concurrency))
	if err != nil {
		return s.explain(err)
	}
	// Drain, not Stop: what the client holds already would come to another only when its time to
	// answer is over.
	stop := context.AfterFunc(ctx, iter.Drain)
	defer stop()
	defer iter.Stop()
	pump := broker.NewPump(s.concurrency)
	defer pump.Wait()
	for {
		m, err := iter.Next()
		switch {
		case ctx.Err() != nil && err == nil:
			_ = m.Nak()
			continue
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return s.explain(err)
		}
		pump.Hand(ctx, s.delivery(m), f)
	}
}

func (s *source) explain(err error) error {
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDeleted) {
		return fmt.Errorf("%w: %w", broker.ErrNoSubscription, err)
	}
	return err
}

func (s *source) delivery(m jetstream.Msg) broker.Delivery {
	d := broker.Delivery{Body: m.Data(), Attributes: make(map[string]string, len(m.Headers()))}
	for name, values := range m.Headers() {
		switch name {
		case orderingKeyHeader:
			d.OrderingKey = values[0]
		case jetstream.MsgIDHeader:
		default:
			d.Attributes[name] = values[0]
		}
	}
	if meta, err := m.Metadata(); err == nil {
		d.Attempt = int(meta.NumDelivered)
		d.ID = meta.Stream + "/" + strconv.FormatUint(meta.Sequence.Stream, 10)
	}
	d.Message = newMessage(m, d.Attempt, s.ackWait)
	return d
}

// message is one that is being handled. The server is told so in time, or it would deliver it to
// another.
type message struct {
	jetstream.Msg
	attempt int
	end     func()
}

func newMessage(m jetstream.Msg, attempt int, ackWait time.Duration) *message {
	settled := make(chan struct{})
	go func() {
		tick := time.NewTicker(max(ackWait/3, time.Second))
		defer tick.Stop()
		for {
			select {
			case <-settled:
				return
			case <-tick.C:
				_ = m.InProgress() // a connection that is away says nothing; the message comes again
			}
		}
	}()
	return &message{Msg: m, attempt: attempt, end: sync.OnceFunc(func() { close(settled) })}
}

// Ack implements broker.Message.
func (m *message) Ack() {
	m.end()
	_ = m.Msg.Ack() // lost: it comes again, and the guard knows it
}

// Nack implements broker.Message.
func (m *message) Nack() {
	m.end()
	_ = m.NakWithDelay(broker.Pause(m.attempt)) // lost: it comes again by itself
}
