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

const (
	testProject = "test-project"
	logical     = "domain"
	physical    = "pf-domain-events"
	topicPath   = "projects/" + testProject + "/topics/" + physical
)

var testTopics = map[string]string{logical: physical, "missing": "pf-nowhere"}

// startFake starts the Pub/Sub fake without any topic.
func startFake(t *testing.T) *devstack.PubSub {
	t.Helper()
	fake, err := devstack.StartPubSub(t.Context(), devstack.PubSubParams{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, fake.Stop(ctx))
	})
	return fake
}

// connect opens a client on the fake.
func connect(t *testing.T, fake *devstack.PubSub, cfg pubsub.Config) *pubsub.Client {
	t.Helper()
	cfg.Project, cfg.Emulator = testProject, fake.Addr()
	client, err := pubsub.Connect(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// start gives a fake with the topic and its subscriptions, and a publisher on it.
func start(t *testing.T, cfg pubsub.Config) (*devstack.PubSub, *pubsub.Publisher) {
	t.Helper()
	fake := startFake(t)
	client := connect(t, fake, cfg)
	_, err := client.Ensure(t.Context(), broker.EnsureParams{Plan: pubsub.Plan(map[string]string{logical: physical}, nil)})
	require.NoError(t, err)
	return fake, client.NewPublisher(testTopics).(*pubsub.Publisher)
}

func message(id, data string) dispatch.Message {
	return dispatch.Message{EventID: id, Data: []byte(data), Attributes: map[string]string{"event_id": id}}
}

// storedIDs is the event ids the fake holds, in order.
func storedIDs(fake *devstack.PubSub) []string {
	var ids []string
	for _, m := range fake.Stored() {
		ids = append(ids, m.Attributes["event_id"])
	}
	return ids
}
