package devstack_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
)

// Receivers that vanish right after a keep-alive must not take the whole server with them.
func TestPubSubSurvivesReceiversThatVanish(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	subscriber, name := b.subscribe(t, &pubsubpb.Subscription{})

	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			ctx, vanish := context.WithCancel(t.Context())
			defer vanish()
			stream, err := subscriber.StreamingPull(ctx)
			if err != nil {
				return
			}
			_ = stream.Send(&pubsubpb.StreamingPullRequest{Subscription: name, StreamAckDeadlineSeconds: 10, ProtocolVersion: 1})
			for range 20 {
				_ = stream.Send(&pubsubpb.StreamingPullRequest{}) // the stream may be gone; that is the point
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, b.publish(ctx, "still here"))
}
