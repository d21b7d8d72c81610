package pubsub_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

func ordered(key string, ids ...string) (msgs []dispatch.Message) {
	for _, id := range ids {
		m := message(id, "{}")
		m.OrderingKey = key
		msgs = append(msgs, m)
	}
	return msgs
}

// The service refuses what the library's fake takes; ours refuses it too.
func TestTwoOrderingKeysInARequestAreRefused(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{})
	for _, r := range publisher.Publish(t.Context(), logical, append(ordered("a", "1"), ordered("b", "2")...)) {
		require.Equal(t, codes.FailedPrecondition.String(), dispatch.CodeOf(r.Err))
	}
	require.Empty(t, fake.Stored())
}

func TestThrottledKeyIsTold(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{})
	fake.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
		return devstack.PublishFault{Err: status.Error(codes.ResourceExhausted, "too fast")}
	})
	require.ErrorIs(t, publisher.Publish(t.Context(), logical, ordered("a", "1"))[0].Err, dispatch.ErrThrottled)
	require.NotErrorIs(t, publisher.Publish(t.Context(), logical, ordered("", "2"))[0].Err, dispatch.ErrThrottled)
}

func TestEnsureOrdered(t *testing.T) {
	t.Parallel()
	client := connect(t, startFake(t), pubsub.Config{})
	plan := pubsub.Plan(map[string]string{logical: physical}, nil)
	_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: plan})
	require.NoError(t, err)
	actions, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: plan, Ordered: true, DryRun: true})
	require.ErrorIs(t, err, broker.ErrIncomplete)
	require.Equal(t, broker.OutcomeDiffers, actions[len(actions)-1].Outcome)
	require.Contains(t, actions[len(actions)-1].Detail, "does not deliver in order")

	another := pubsub.Plan(map[string]string{logical: physical}, map[string]string{logical: "ledger-sub"})
	actions, err = client.Ensure(t.Context(), broker.EnsureParams{Plan: another, Ordered: true})
	require.NoError(t, err, "the dead letters of the first need no order")
	require.Equal(t, broker.OutcomeCreated, actions[len(actions)-1].Outcome)

	fresh := connect(t, startFake(t), pubsub.Config{})
	for range 2 {
		_, err = fresh.Ensure(t.Context(), broker.EnsureParams{Plan: plan, Ordered: true})
		require.NoError(t, err)
	}
}
