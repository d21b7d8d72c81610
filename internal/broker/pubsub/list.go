package pubsub

import (
	"context"
	"errors"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// List asks the broker about every planned topic. A topic that is missing or
// forbidden is an answer, carried in its state; an unreachable broker is an error.
func (c *Client) List(ctx context.Context, plan []broker.PlannedTopic) ([]broker.Topic, error) {
	return broker.List(plan, func(t *broker.Topic) (bool, error) { return c.describe(ctx, t) })
}

// describe adds what is attached to a topic and reports whether the broker has it.
func (c *Client) describe(ctx context.Context, t *broker.Topic) (exists bool, err error) {
	if err := ValidateName(broker.KindTopic, t.Name); err != nil {
		return false, misconfigured(codes.FailedPrecondition, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ProbeTimeout)
	defer cancel()
	path := c.topicPath(t.Name)
	_, err = c.pubsub.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: path})
	if codeOf(err) == codes.NotFound {
		return false, nil
	}
	if err != nil {
		return false, failure(err)
	}
	it := c.pubsub.TopicAdminClient.ListTopicSubscriptions(ctx, &pubsubpb.ListTopicSubscriptionsRequest{Topic: path})
	for {
		name, err := it.Next()
		if errors.Is(err, iterator.Done) {
			slices.Sort(t.Subscriptions)
			return true, nil
		}
		if err != nil {
			return true, failure(err)
		}
		t.Subscriptions = append(t.Subscriptions, lastPart(name))
	}
}
