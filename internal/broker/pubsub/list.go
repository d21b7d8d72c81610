package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// List asks the broker about every planned topic. A topic that is missing or
// forbidden is an answer, carried in its state; an unreachable broker is an error.
func (c *Client) List(ctx context.Context, plan []broker.PlannedTopic) ([]broker.Topic, error) {
	topics := make([]broker.Topic, 0, len(plan))
	for _, t := range plan {
		found := broker.Topic{Name: t.Name, State: broker.TopicReady, Subscriptions: []string{}}
		exists, err := c.describe(ctx, &found)
		switch {
		case err == nil && !exists:
			found.State = broker.TopicMissing
		case err == nil:
		case dispatch.ClassOf(err) == dispatch.Misconfigured:
			found.State, found.Error = broker.TopicRefused, err.Error()
		default:
			return nil, fmt.Errorf("look up topic %s: %w", t.Name, err)
		}
		for _, logical := range t.Logical {
			found.Topic = logical
			topics = append(topics, found)
		}
	}
	return topics, nil
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
