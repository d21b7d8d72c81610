package consumer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// DefaultConcurrency is how many events are handled at once. Each waits for
	// Redis and PostgreSQL most of the time, so it is far above the cores.
	DefaultConcurrency = 64

	// DefaultConnections to PostgreSQL. A commit waits for the disk, and commits
	// that wait together share one flush: fewer connections than this leave
	// throughput to the disk's latency.
	DefaultConnections = 32

	// DefaultStreams is how many streams receive from the service: one stream
	// carries 10 MB/s, a few more survive the loss of one.
	DefaultStreams = 4

	// EmulatorStreams is the same for Google's fake, which hands each stream at
	// most one message per 10 ms.
	EmulatorStreams = 64

	// ackExtension is how far the client pushes a message's ack deadline at a time.
	ackExtension = 30 * time.Second
)

// DeadLetterTopic asks Pub/Sub for the topic that takes the malformed messages of a subscription; empty means they stay.
func DeadLetterTopic(ctx context.Context, client *pubsub.Client, project, subscription string) (string, error) {
	name := fmt.Sprintf("projects/%s/subscriptions/%s", project, subscription)
	sub, err := client.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
	if err != nil {
		return "", fmt.Errorf("look up subscription %s: %w", subscription, err)
	}
	return sub.GetDeadLetterPolicy().GetDeadLetterTopic(), nil
}

// NewSource prepares a subscriber for a worker of that concurrency. Streams 0 means DefaultStreams.
func NewSource(client *pubsub.Client, subscription string, concurrency, streams int) *pubsub.Subscriber {
	sub := client.Subscriber(subscription)
	// The callback's slot is the concurrency limit: one more message than can be
	// handled would only let its ack deadline run.
	sub.ReceiveSettings.MaxOutstandingMessages = concurrency
	sub.ReceiveSettings.NumGoroutines = cmp.Or(streams, DefaultStreams)
	// What a killed worker held comes back within this time. Handlers may take
	// longer: the deadline is extended while they run.
	sub.ReceiveSettings.MaxDurationPerAckExtension = ackExtension
	return sub
}

// Permanent reports whether a receive error needs a person: a subscription that
// does not exist, or may not be read.
func Permanent(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition:
		return true
	default:
		return false
	}
}
