package consumer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// ackExtension is how far the client pushes a message's ack deadline at a time.
const ackExtension = 30 * time.Second

// Subscription is what the worker needs to know about its subscription.
type Subscription struct {
	Name string
	// DeadLetterTopic takes malformed messages; empty means they stay.
	DeadLetterTopic string
	// MaxDeliveryAttempts before a message goes there.
	MaxDeliveryAttempts int
}

// Inspect asks Pub/Sub for the subscription.
func Inspect(ctx context.Context, client *pubsub.Client, project, subscription string) (Subscription, error) {
	name := fmt.Sprintf("projects/%s/subscriptions/%s", project, subscription)
	sub, err := client.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
	if err != nil {
		return Subscription{}, fmt.Errorf("look up subscription %s: %w", subscription, err)
	}
	return Subscription{
		Name:                subscription,
		DeadLetterTopic:     sub.GetDeadLetterPolicy().GetDeadLetterTopic(),
		MaxDeliveryAttempts: int(sub.GetDeadLetterPolicy().GetMaxDeliveryAttempts()),
	}, nil
}

// NewSource prepares a subscriber for a worker of that concurrency. Streams 0
// means DefaultStreams; more than MaxStreams are for the caller to refuse.
func NewSource(client *pubsub.Client, subscription string, concurrency, streams int) *pubsub.Subscriber {
	sub := client.Subscriber(subscription)
	// The callback's slot is the concurrency limit: one more message than can be
	// handled would only let its ack deadline run.
	sub.ReceiveSettings.MaxOutstandingMessages = cmp.Or(concurrency, DefaultConcurrency)
	sub.ReceiveSettings.NumGoroutines = cmp.Or(streams, DefaultStreams)
	// What a killed worker held comes back within this time. Handlers may take
	// longer: the deadline is extended while they run.
	sub.ReceiveSettings.MaxDurationPerAckExtension = ackExtension
	return sub
}
