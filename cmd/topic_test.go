package cmd

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

// startPubSub starts a fake without topics and the environment that names it.
func startPubSub(t *testing.T) (*devstack.PubSub, []string) {
	t.Helper()
	fake, err := devstack.StartPubSub(t.Context(), devstack.PubSubParams{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, fake.Stop(ctx))
	})
	return fake, []string{"PUBSUB_EMULATOR_HOST=" + fake.Addr(), "GOOGLE_CLOUD_PROJECT=" + fake.Project}
}

func TestTopicEnsureAndList(t *testing.T) {
	t.Parallel()
	_, env := startPubSub(t)

	code, out, stderr := runCLI(t, env, "topic", "list", "-o", "json")
	require.Equal(t, cli.ExitOK, code, stderr)
	var topics []broker.Topic
	require.NoError(t, json.Unmarshal([]byte(out), &topics))
	require.Len(t, topics, 4)
	for _, row := range topics {
		require.Equal(t, broker.TopicMissing, row.State, row.Topic)
	}
	require.Contains(t, stderr, "4 of 4 topics do not exist; outboxctl topic ensure creates them")

	code, out, stderr = runCLI(t, env, "topic", "ensure", "--dry-run", "-o", "id")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, out, "pf-billing-events-dead-letter-sub\n")
	require.Contains(t, stderr, "16 would be created, 0 exist")

	for _, outcome := range []string{"created", "exists"} {
		code, out, stderr = runCLI(t, env, "topic", "ensure", "--subscription", "reader", "-o", "json")
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Empty(t, stderr)
		var rows []broker.Action
		require.NoError(t, json.Unmarshal([]byte(out), &rows))
		require.Len(t, rows, 16)
		for _, row := range rows {
			require.EqualValues(t, outcome, row.Outcome, row.Name)
		}
	}

	code, out, stderr = runCLI(t, env, "topic", "list", "-o", "json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(out), &topics))
	require.Equal(t, broker.Topic{
		Topic: "domain", Name: "pf-domain-events", State: broker.TopicReady, Subscriptions: []string{"reader"},
	}, topics[2])
}

func TestTopicEnsureRefused(t *testing.T) {
	t.Parallel()
	fake, env := startPubSub(t)
	fake.OnCall(func(context.Context, string) error { return status.Error(codes.PermissionDenied, "not you\x1b[31m") })

	code, out, stderr := runCLI(t, env, "topic", "ensure", "-o", "wide")
	require.Equal(t, cli.ExitPrecondition, code)
	require.Contains(t, out, "topic\tpf-analytics-events-dead-letter\tpf-analytics-events-dead-letter\tfailed")
	require.NotContains(t, out, "\x1b")
	require.Contains(t, stderr, "4 topics or subscriptions are not as planned")
	require.Contains(t, stderr, "hint: ")

	code, out, _ = runCLI(t, env, "topic", "list")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, out, "refused")
}

func TestTopicEnsurePartly(t *testing.T) {
	t.Parallel()
	fake, env := startPubSub(t)
	fake.OnCall(func(_ context.Context, method string) error {
		if method == "CreateSubscription" {
			return status.Error(codes.ResourceExhausted, "quota")
		}
		return nil
	})
	code, _, stderr := runCLI(t, env, "topic", "ensure")
	require.Equal(t, cli.ExitPartial, code, stderr)
}

func TestTopicBrokerAway(t *testing.T) {
	t.Parallel()
	fake, env := startPubSub(t)
	fake.Disconnect()
	for _, args := range [][]string{{"topic", "list"}, {"topic", "ensure"}} {
		code, out, stderr := runCLI(t, env, args...)
		require.Equal(t, cli.ExitPrecondition, code, stderr)
		require.NotContains(t, out, "pf-")
		require.Contains(t, stderr, "error: ask Pub/Sub (project "+fake.Project+" on the emulator at "+fake.Addr()+")")
	}
}

func TestTopicWithoutProject(t *testing.T) {
	t.Parallel()
	code, _, stderr := runCLI(t, nil, "topic", "list")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "pubsub.project is not set")
}
