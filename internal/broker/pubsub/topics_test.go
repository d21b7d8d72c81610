package pubsub_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

// A topic that does not answer must not take the room of the others: they would time out with it.
func TestATopicThatHangsLeavesRoomForTheOthers(t *testing.T) {
	t.Parallel()
	topics := map[string]string{"domain": "pf-domain-events", "billing": "pf-billing-events"}
	fake := startFake(t)
	client := connect(t, fake, pubsub.Config{Concurrency: 1, PublishTimeout: time.Minute})
	_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: pubsub.Plan(topics, nil), TopicsOnly: true})
	require.NoError(t, err)

	hanging := make(chan struct{})
	fake.OnPublish(func(ctx context.Context, call devstack.PublishCall) devstack.PublishFault {
		if call.Topic == "projects/"+testProject+"/topics/pf-domain-events" {
			close(hanging)
			return devstack.PublishFault{Delay: time.Hour}
		}
		return devstack.PublishFault{}
	})
	publisher := client.NewPublisher(topics)
	ctx, giveUp := context.WithCancel(t.Context())
	stuck := make(chan []dispatch.Result, 1)
	go func() { stuck <- publisher.Publish(ctx, "domain", []dispatch.Message{message("1", "{}")}) }()
	<-hanging

	results := publisher.Publish(t.Context(), "billing", []dispatch.Message{message("2", "{}")})
	require.Len(t, results, 1)
	require.NoError(t, results[0].Err)
	giveUp()
	require.Error(t, (<-stuck)[0].Err)
}
