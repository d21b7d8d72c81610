package pubsub

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
)

const publishPermission = "pubsub.topics.publish"

// Ready implements [dispatch.Publisher]: one lookup that stores nothing.
//
// Looking a topic up needs a permission that the role roles/pubsub.publisher does
// not have. An account that may publish and nothing else is the usual and the
// right one, so a refused lookup asks what the account may do instead: that
// question needs no permission at all.
func (p *Publisher) Ready(ctx context.Context, topic string) error {
	path, err := p.path(topic)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.cfg.ProbeTimeout)
	defer cancel()
	admin := p.client.pubsub.TopicAdminClient
	_, err = admin.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: path}, once())
	if err == nil {
		return nil
	}
	if codeOf(err) != codes.PermissionDenied {
		return failure(err)
	}
	allowed, testErr := admin.TestIamPermissions(ctx, &iampb.TestIamPermissionsRequest{
		Resource:    path,
		Permissions: []string{publishPermission},
	}, once())
	switch {
	case testErr != nil && codeOf(testErr) != codes.Unimplemented:
		return failure(testErr)
	case testErr == nil && slices.Contains(allowed.GetPermissions(), publishPermission):
		return nil
	}
	return failure(fmt.Errorf("publish to %s is not permitted: %w", path, err))
}
