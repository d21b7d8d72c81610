package pubsub

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/internal/broker"
)

const (
	// receivingConnections carry the streams of a consumer; a publisher needs exactly one.
	receivingConnections = 4

	// DefaultStreams is how many streams receive from the service: one stream
	// carries 10 MB/s, a few more survive the loss of one.
	DefaultStreams = 4

	// EmulatorStreams is the same for Google's fake, which hands each stream at
	// most one message per 10 ms.
	EmulatorStreams = 64

	// ackExtension is how far the client pushes a message's ack deadline at a time.
	ackExtension = 30 * time.Second
)

// subscription is one that hands out messages, on connections of its own.
type subscription struct {
	client   *Client // of this source
	name     string
	about    broker.About
	receiver *pubsub.Subscriber
}

// Source implements broker.Broker. Its connections are closed with the client.
func (c *Client) Source(ctx context.Context, p broker.SourceParams) (broker.Source, error) {
	cfg := c.cfg
	cfg.Connections = receivingConnections
	client, err := Connect(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, err
	}
	c.sources = append(c.sources, client)
	s := &subscription{client: client, name: p.Subscription}
	found, err := client.pubsub.SubscriptionAdminClient.GetSubscription(ctx,
		&pubsubpb.GetSubscriptionRequest{Subscription: client.subscriptionPath(p.Subscription)})
	if err != nil {
		return nil, s.explain(fmt.Errorf("look up subscription %s: %w", p.Subscription, err))
	}
	s.about.Ordered = found.GetEnableMessageOrdering()
	if policy := found.GetDeadLetterPolicy(); policy.GetDeadLetterTopic() != "" {
		s.about.MaxDeliveries = int(cmp.Or(policy.GetMaxDeliveryAttempts(), MaxDeliveryAttempts))
	} else {
		s.about.Warning = "subscription has no dead-letter policy: malformed messages stay until they expire"
	}
	streams := DefaultStreams
	if c.Emulated() {
		streams = EmulatorStreams
	}
	s.receiver = client.pubsub.Subscriber(p.Subscription)
	// The callback's slot is the concurrency limit: one more message than can be
	// handled would only let its ack deadline run.
	s.receiver.ReceiveSettings.MaxOutstandingMessages = p.Concurrency
	s.receiver.ReceiveSettings.NumGoroutines = cmp.Or(p.Streams, streams)
	// What a killed worker held comes back within this time. Handlers may take
	// longer: the deadline is extended while they run.
	s.receiver.ReceiveSettings.MaxDurationPerAckExtension = cmp.Or(p.Comeback, ackExtension)
	return s, nil
}

// Receive implements broker.Source.
func (s *subscription) Receive(ctx context.Context, f func(broker.Delivery)) error {
	return s.explain(s.receiver.Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		delete(m.Attributes, clientTrace) // it repeats traceparent, and is not the event's
		d := broker.Delivery{Message: m, ID: m.ID, Attributes: m.Attributes, Body: m.Data, OrderingKey: m.OrderingKey}
		if m.DeliveryAttempt != nil {
			d.Attempt = *m.DeliveryAttempt
		}
		f(d)
	}))
}

// explain marks the error of a subscription that does not exist.
func (s *subscription) explain(err error) error {
	if err != nil && codeOf(err) == codes.NotFound {
		return &missing{err, s.name, s.client.cfg.Project}
	}
	return err
}

// missing is the error of a subscription that does not exist.
type missing struct {
	error
	subscription, project string
}

func (m *missing) Error() string {
	return fmt.Sprintf("subscription %s does not exist in project %s", m.subscription, m.project)
}

func (m *missing) Unwrap() []error { return []error{broker.ErrNoSubscription, m.error} }

// Permanent implements broker.Source.
func (s *subscription) Permanent(err error) bool {
	switch codeOf(err) {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition:
		return true
	default:
		return false
	}
}

// About implements broker.Source.
func (s *subscription) About() broker.About { return s.about }
