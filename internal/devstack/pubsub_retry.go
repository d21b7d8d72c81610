package devstack

import (
	"context"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
)

// nackPauseSeconds is the fake's stand-in for a retry policy, whose own backoff would be too long
// for a laptop.
const nackPauseSeconds = 1

// spaceNacks keeps the promise of a subscription's retry policy, which the fake ignores: a message
// that was given back comes again after a pause. Without it a receiver that is stopping gets the
// same message over one stream after the other, and has used up what the dead-letter policy allows
// before the last of them is closed.
//
// It is a grpc.UnaryServerInterceptor.
func (p *PubSub) spaceNacks(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	if deadline, ok := req.(*pubsubpb.ModifyAckDeadlineRequest); ok &&
		deadline.GetAckDeadlineSeconds() == 0 {
		sub, err := p.fake.GServer.GetSubscription(ctx,
			&pubsubpb.GetSubscriptionRequest{Subscription: deadline.GetSubscription()})
		if err == nil && sub.GetRetryPolicy() != nil {
			deadline.AckDeadlineSeconds = nackPauseSeconds
		}
	}
	return handler(ctx, req)
}
