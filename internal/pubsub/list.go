package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/internal/dispatch"
)

// TopicState is what the broker knows of one physical topic.
type TopicState struct {
	// Logical names the logical topics sent to it.
	Logical []string
	// Name is the physical topic.
	Name string
	// Exists is false when the broker answered NotFound.
	Exists bool
	// Subscriptions are the ids attached to the topic, sorted.
	Subscriptions []string
	// Err is why the broker did not tell; nil when it did.
	Err error
}

// List asks the broker about every planned topic. A topic that is missing or
// forbidden is an answer, carried in its state; an unreachable broker is an error.
func (c *Client) List(ctx context.Context, plan []PlannedTopic) ([]TopicState, error) {
	states := make([]TopicState, 0, len(plan))
	for _, t := range plan {
		state := TopicState{Logical: slices.Clone(t.Logical), Name: t.Name}
		err := c.describe(ctx, &state)
		switch {
		case err == nil:
		case dispatch.ClassOf(err) == dispatch.Misconfigured:
			state.Err = err
		default:
			return nil, fmt.Errorf("look up topic %s: %w", t.Name, err)
		}
		states = append(states, state)
	}
	return states, nil
}

func (c *Client) describe(ctx context.Context, state *TopicState) error {
	if err := ValidateName(state.Name); err != nil {
		return misconfigured(codes.FailedPrecondition, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ProbeTimeout)
	defer cancel()
	path := c.topicPath(state.Name)
	_, err := c.pubsub.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: path})
	if codeOf(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return failure(err)
	}
	state.Exists = true
	it := c.pubsub.TopicAdminClient.ListTopicSubscriptions(ctx, &pubsubpb.ListTopicSubscriptionsRequest{Topic: path})
	for {
		name, err := it.Next()
		if errors.Is(err, iterator.Done) {
			slices.Sort(state.Subscriptions)
			return nil
		}
		if err != nil {
			return failure(err)
		}
		state.Subscriptions = append(state.Subscriptions, lastPart(name))
	}
}
