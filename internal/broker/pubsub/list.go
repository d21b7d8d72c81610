package pubsub

import (
	"context"
	"errors"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// List asks the broker about every planned topic. A topic that is missing or
// forbidden is an answer, carried in its state; an unreachable broker is an error.
func (c *Client) List(ctx context.Context, plan []broker.PlannedTopic) ([]broker.Topic, error) {
	return broker.List(plan, failure, func(t *broker.Topic) (bool, error) {
		return c.describe(ctx, t)
	})
}

// describe adds what is attached to a topic and reports whether the broker has it.
func (c *Client) describe(ctx context.Context, t *broker.Topic) (exists bool, err error) {
	if err := ValidateName(broker.KindTopic, t.Name); err != nil {
		t.State, t.Error = broker.TopicRefused, err.Error()
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	path := c.topicPath(t.Name)
	_, err = c.pubsub.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: path})
	if codeOf(err) == codes.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	it := c.pubsub.TopicAdminClient.ListTopicSubscriptions(ctx, &pubsubpb.ListTopicSubscriptionsRequest{Topic: path})
	for {
		name, err := it.Next()
		if errors.Is(err, iterator.Done) {
			slices.Sort(t.Subscriptions)
			return true, nil
		}
		if err != nil {
			return true, err
		}
		t.Subscriptions = append(t.Subscriptions, lastPart(name))
	}
}

// Settings of the subscriptions that Ensure creates.
const (
	// AckDeadline is long enough for a handler with one slow dependency; the
	// client extends it while the handler runs.
	AckDeadline = 60 * time.Second
	// RetryBackoffMin and RetryBackoffMax keep a failing handler from spinning.
	RetryBackoffMin = 10 * time.Second
	RetryBackoffMax = 10 * time.Minute
	// MaxDeliveryAttempts is how often a handler may fail before the message
	// goes to the dead-letter topic.
	MaxDeliveryAttempts = 10
	// Retention is how long an unacknowledged message is kept.
	Retention = 7 * 24 * time.Hour
)

const (
	subscriptionSuffix = "-sub"
	deadLetterSuffix   = "-dead-letter"
)

// Plan derives the topics and subscriptions from configuration: topics maps each
// logical topic to its physical name, subscriptions names the subscription of a
// logical topic where it is not the topic's name with "-sub" behind it.
func Plan(topics, subscriptions map[string]string) []broker.PlannedTopic {
	return broker.Plan(topics, subscriptions, func(physical string) broker.PlannedTopic {
		id := lastPart(physical)
		return broker.PlannedTopic{
			Name:                   physical,
			Subscription:           id + subscriptionSuffix,
			DeadLetterTopic:        id + deadLetterSuffix,
			DeadLetterSubscription: id + deadLetterSuffix + subscriptionSuffix,
		}
	})
}
