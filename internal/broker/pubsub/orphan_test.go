package pubsub_test

import (
	"context"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
)

func onlyDomain() []broker.PlannedTopic {
	return pubsub.Plan(map[string]string{"domain": physical}, map[string]string{"domain": "reader"})
}

// held counts how often publishers were held and released.
type held struct{ holds, releases int }

func (h *held) hold(context.Context, []string) (func(context.Context) error, error) {
	h.holds++
	return func(context.Context) error { h.releases++; return nil }, nil
}

// Where publishers cannot be held, a topic that has lost its subscriptions is not created: it would take what waits.
func TestALostTopicIsNotCreatedWhilePublishersCannotBeHeld(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: onlyDomain()})
	require.NoError(t, err)
	require.NoError(t, client.PubSub().TopicAdminClient.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: topicPath}))

	h := &held{}
	for _, p := range []broker.EnsureParams{{}, {TopicsOnly: true}, {TopicsOnly: true, Hold: h.hold}} {
		p.Plan = onlyDomain()
		actions, err := client.Ensure(t.Context(), p)
		require.ErrorIs(t, err, broker.ErrIncomplete)
		require.Equal(t, []string{"topic " + physical + " failed", "subscription reader failed"}, outcomes(actions))
		topics, err := client.List(t.Context(), onlyDomain())
		require.NoError(t, err)
		require.Equal(t, broker.TopicMissing, topics[0].State)
	}
	require.Zero(t, h.holds)

	actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: onlyDomain(), Hold: h.hold})
	require.NoError(t, err)
	require.Equal(t, "subscription reader replaced", outcomes(actions)[3])
	require.Equal(t, held{1, 1}, *h)
	_, err = client.Ensure(t.Context(), broker.EnsureParams{Plan: onlyDomain(), Hold: h.hold})
	require.NoError(t, err)
	require.Equal(t, held{1, 1}, *h, "nothing is held where everything exists")
}

// Publishers stay held when a subscription could not be made, and are released when the topic could not.
func TestPublishersStayHeldUntilTheSubscriptionExists(t *testing.T) {
	t.Parallel()
	for method, released := range map[string]int{"CreateSubscription": 0, "CreateTopic": 1} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			fake := startFake(t)
			client := connect(t, fake, pubsub.Config{})
			calls, h := 0, &held{}
			fake.OnCall(func(_ context.Context, called string) error {
				if called == method {
					calls++
				}
				if called == method && calls == 2 { // the first is for dead letters
					return errRefused
				}
				return nil
			})
			_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: onlyDomain(), Hold: h.hold})
			fake.OnCall(nil)
			require.Error(t, err)
			require.Equal(t, held{1, released}, *h)
		})
	}
}

// Dead letters that nobody has read are not deleted with their subscription.
func TestDeadLettersOfALostTopicStay(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	admin, h := client.PubSub(), &held{}
	dead, sub := topicPath+"-dead-letter", "projects/"+testProject+"/subscriptions/"+physical+"-dead-letter-sub"
	_, err := admin.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: dead})
	require.NoError(t, err)
	_, err = admin.SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: sub, Topic: dead, AckDeadlineSeconds: 10})
	require.NoError(t, err)
	_, err = admin.TopicAdminClient.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: dead, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("{}")}}})
	require.NoError(t, err)
	require.NoError(t, admin.TopicAdminClient.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: dead}))

	params := broker.EnsureParams{Plan: onlyDomain(), Hold: h.hold}
	actions, err := client.Ensure(t.Context(), params)
	require.ErrorIs(t, err, broker.ErrIncomplete)
	require.Equal(t, []string{"subscription " + physical + "-dead-letter-sub failed"}, outcomes(actions))
	require.Contains(t, actions[0].Detail, "holds dead letters")

	require.NoError(t, admin.SubscriptionAdminClient.DeleteSubscription(t.Context(), &pubsubpb.DeleteSubscriptionRequest{Subscription: sub}))
	_, err = client.Ensure(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, held{2, 2}, *h)
}

var errRefused = status.Error(codes.PermissionDenied, "not you")
