package pubsub_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
)

func twoTopics() []broker.PlannedTopic {
	return pubsub.Plan(map[string]string{"domain": physical, "billing": "pf-billing-events"}, map[string]string{"domain": "reader"})
}

// outcomes is the report in short: "topic pf-billing-events created".
func outcomes(actions []broker.Action) []string {
	var lines []string
	for _, a := range actions {
		lines = append(lines, strings.Join([]string{a.Kind, a.Name, string(a.Outcome)}, " "))
	}
	return lines
}

func TestEnsureCreatesWhatIsMissing(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	plan := twoTopics()
	lines := func(outcome string) []string {
		return []string{
			"topic pf-billing-events-dead-letter " + outcome,
			"subscription pf-billing-events-dead-letter-sub " + outcome,
			"topic pf-billing-events " + outcome,
			"subscription pf-billing-events-sub " + outcome,
			"topic pf-domain-events-dead-letter " + outcome,
			"subscription pf-domain-events-dead-letter-sub " + outcome,
			"topic pf-domain-events " + outcome,
			"subscription reader " + outcome,
		}
	}
	for _, step := range []struct {
		dryRun  bool
		outcome string
	}{{true, "missing"}, {false, "created"}, {false, "exists"}, {true, "exists"}} {
		actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: plan, DryRun: step.dryRun})
		require.NoError(t, err)
		require.Equal(t, lines(step.outcome), outcomes(actions))
	}

	sub, err := client.PubSub().SubscriptionAdminClient.GetSubscription(t.Context(),
		&pubsubpb.GetSubscriptionRequest{Subscription: "projects/" + testProject + "/subscriptions/reader"})
	require.NoError(t, err)
	require.Equal(t, topicPath, sub.GetTopic())
	require.Equal(t, topicPath+"-dead-letter", sub.GetDeadLetterPolicy().GetDeadLetterTopic())
	require.EqualValues(t, pubsub.MaxDeliveryAttempts, sub.GetDeadLetterPolicy().GetMaxDeliveryAttempts())
	require.EqualValues(t, pubsub.AckDeadline.Seconds(), sub.GetAckDeadlineSeconds())
	require.Equal(t, pubsub.RetryBackoffMax, sub.GetRetryPolicy().GetMaximumBackoff().AsDuration())
	require.NotNil(t, sub.GetExpirationPolicy(), "a subscription without readers must not expire")
	require.Zero(t, sub.GetExpirationPolicy().GetTtl().AsDuration())
}

func TestEnsureTopicsOnly(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics(), TopicsOnly: true})
	require.NoError(t, err)
	require.Equal(t, []string{"topic pf-billing-events created", "topic pf-domain-events created"}, outcomes(actions))
}

func TestEnsureTwoAtOnce(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	var wg sync.WaitGroup
	var reports [2][]broker.Action
	var errs [2]error
	for i := range reports {
		wg.Go(func() { reports[i], errs[i] = client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics()}) })
	}
	wg.Wait()
	created := map[string]int{}
	for i := range reports {
		require.NoError(t, errs[i])
		require.Len(t, reports[i], 8)
		for _, a := range reports[i] {
			if a.Outcome == broker.OutcomeCreated {
				created[a.Kind+a.Name]++
			}
		}
	}
	require.Len(t, created, 8)
	for name, n := range created {
		require.Equal(t, 1, n, name)
	}
}

func TestEnsureLeavesAForeignSubscriptionAlone(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: pubsub.Plan(map[string]string{"x": "other-topic"}, map[string]string{"x": "reader"})})
	require.NoError(t, err)
	for _, dryRun := range []bool{true, false} {
		actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics(), DryRun: dryRun})
		require.ErrorIs(t, err, broker.ErrIncomplete)
		last := actions[len(actions)-1]
		require.Equal(t, broker.OutcomeDiffers, last.Outcome)
		require.Equal(t, "receives from other-topic, not from pf-domain-events", last.Detail)
	}
}

// A topic that has lost its subscriptions is not created: it would take what waits and deliver it to nobody.
func TestEnsureLeavesALostTopicAlone(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	admin := client.PubSub()
	_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics()})
	require.NoError(t, err)
	require.NoError(t, admin.SubscriptionAdminClient.DeleteSubscription(t.Context(),
		&pubsubpb.DeleteSubscriptionRequest{Subscription: "projects/" + testProject + "/subscriptions/pf-billing-events-sub"}))
	for _, topic := range []string{topicPath, "projects/" + testProject + "/topics/pf-billing-events-dead-letter"} {
		require.NoError(t, admin.TopicAdminClient.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: topic}))
	}
	for _, p := range []broker.EnsureParams{{DryRun: true}, {TopicsOnly: true}, {Ordered: true}, {}} {
		p.Plan = twoTopics()
		actions, err := client.Ensure(t.Context(), p)
		require.ErrorIs(t, err, broker.ErrIncomplete)
		require.Equal(t, []string{
			"topic pf-billing-events exists", "subscription pf-billing-events-dead-letter-sub orphaned",
			"topic pf-domain-events missing", "subscription reader orphaned",
		}, outcomes(actions))
		require.Equal(t, "has lost its topic: nothing that is published reaches it", actions[3].Detail)
	}

	// Created by hand, it does not get them back.
	_, err = admin.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topicPath})
	require.NoError(t, err)
	actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics()})
	require.ErrorIs(t, err, broker.ErrIncomplete)
	require.Equal(t, []string{"topic pf-domain-events exists", "subscription reader orphaned"}, outcomes(actions)[2:])
}

func TestEnsureMentionsAMissingDeadLetterPolicy(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics(), TopicsOnly: true})
	require.NoError(t, err)
	_, err = client.PubSub().SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: "projects/" + testProject + "/subscriptions/reader", Topic: topicPath, AckDeadlineSeconds: 10,
	})
	require.NoError(t, err)
	actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics()})
	require.NoError(t, err)
	last := actions[len(actions)-1]
	require.Equal(t, broker.OutcomeExists, last.Outcome)
	require.Contains(t, last.Detail, "no dead-letter policy")
}

func TestEnsureGoesOnAfterARefusal(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	client := connect(t, fake, pubsub.Config{})
	refused := 0
	fake.OnCall(func(_ context.Context, method string) error {
		if method == "CreateTopic" && refused == 0 {
			refused++
			return status.Error(codes.PermissionDenied, "pubsub.topics.create")
		}
		return nil
	})
	actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics()})
	require.ErrorIs(t, err, broker.ErrIncomplete)
	require.Equal(t, []string{
		"topic pf-billing-events-dead-letter failed",
		"topic pf-domain-events-dead-letter created",
		"subscription pf-domain-events-dead-letter-sub created",
		"topic pf-domain-events created",
		"subscription reader created",
	}, outcomes(actions))
	require.Contains(t, actions[0].Detail, "pubsub.topics.create")
}

func TestEnsureAndListStopWhenTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	client := connect(t, fake, pubsub.Config{})
	fake.Disconnect()
	actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: twoTopics()})
	require.ErrorContains(t, err, "list subscriptions")
	require.Empty(t, actions)
	_, err = client.List(t.Context(), twoTopics())
	require.ErrorContains(t, err, "look up topic pf-billing-events")
}

func TestList(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	client := connect(t, fake, pubsub.Config{})
	_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: pubsub.Plan(map[string]string{"domain": physical}, nil)})
	require.NoError(t, err)
	states, err := client.List(t.Context(), twoTopics())
	require.NoError(t, err)
	require.Equal(t, []broker.Topic{
		{Topic: "billing", Name: "pf-billing-events", State: broker.TopicMissing, Subscriptions: []string{}},
		{Topic: "domain", Name: physical, State: broker.TopicReady, Subscriptions: []string{physical + "-sub"}},
	}, states)
	shared, err := client.List(t.Context(), pubsub.Plan(map[string]string{"domain": physical, "billing": physical}, nil))
	require.NoError(t, err)
	require.Equal(t, []string{"billing", "domain"}, []string{shared[0].Topic, shared[1].Topic}, "one row per logical topic")

	fake.OnCall(func(context.Context, string) error { return status.Error(codes.PermissionDenied, "not you") })
	states, err = client.List(t.Context(), twoTopics())
	require.NoError(t, err)
	require.Equal(t, broker.TopicRefused, states[0].State)
	require.Contains(t, states[0].Error, "not you")
}
