package devstack_test

import (
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A message given back to a subscription with a retry policy is not there for the next one who asks.
func TestPubSubKeepsARetryPolicy(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]*pubsubpb.RetryPolicy{
		"with a policy": {MinimumBackoff: durationpb.New(10 * time.Second)}, "without": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startPubSub(t)
			subscriber, sub := b.subscribe(t, &pubsubpb.Subscription{AckDeadlineSeconds: 600, RetryPolicy: policy})
			require.NoError(t, b.publish(t.Context(), "again"))
			pull := func() []*pubsubpb.ReceivedMessage {
				got, err := subscriber.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 1})
				require.NoError(t, err)
				return got.GetReceivedMessages()
			}
			first := pull()
			require.Len(t, first, 1)
			given := time.Now()
			_, err := subscriber.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: sub, AckIds: []string{first[0].GetAckId()}})
			require.NoError(t, err)
			var second []*pubsubpb.ReceivedMessage
			require.Eventually(t, func() bool { second = pull(); return len(second) == 1 }, 30*time.Second, time.Millisecond)
			if policy != nil {
				require.GreaterOrEqual(t, time.Since(given), time.Second, "it came again at once")
			}
		})
	}
}
