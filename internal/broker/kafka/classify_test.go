package kafka

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

func TestClassOf(t *testing.T) {
	t.Parallel()
	for class, errs := range map[dispatch.Class][]error{
		dispatch.Retryable: {
			io.EOF, context.DeadlineExceeded, kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
			kerr.LeaderNotAvailable, kerr.KafkaStorageError, kerr.RequestTimedOut, kerr.UnknownServerError,
		},
		dispatch.Misconfigured: {
			kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed,
			kerr.SaslAuthenticationFailed, kerr.PolicyViolation,
		},
		dispatch.Refused: {kerr.MessageTooLarge, kerr.InvalidRecord},
	} {
		for _, err := range errs {
			require.Equal(t, class.String(), failure(fmt.Errorf("publish: %w", err)).Class.String(), err)
		}
	}
	require.Equal(t, "NOT_ENOUGH_REPLICAS", failure(kerr.NotEnoughReplicas).Code)
	require.Equal(t, "connection", failure(io.EOF).Code)
	require.Equal(t, "timeout", failure(context.Canceled).Code)
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orders", "shop.orders_v1", "pf-domain-events"} {
		require.NoError(t, CheckName(broker.KindTopic, name))
	}
	for _, name := range []string{"", ".", "..", "a b", "a/b", "ü"} {
		require.Error(t, CheckName(broker.KindTopic, name), name)
	}
	require.Error(t, CheckName(broker.KindSubscription, "group"))
	require.NoError(t, CheckName(broker.KindSubscription, "group@topic"))
	for _, list := range []string{"", "a", "a:", ":9092", "a:1,b"} {
		require.Error(t, CheckBrokers(list), list)
	}
	require.NoError(t, CheckBrokers("a:9092,b:9092"))
}
