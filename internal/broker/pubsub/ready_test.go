package pubsub_test

import (
	"context"
	"net"
	"testing"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
)

func TestReadyTellsCodesApart(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{})
	require.NoError(t, publisher.Ready(t.Context(), logical))
	for code, class := range map[codes.Code]dispatch.Class{
		codes.NotFound:         dispatch.Misconfigured,
		codes.PermissionDenied: dispatch.Misconfigured,
		codes.Unauthenticated:  dispatch.Misconfigured,
		codes.Unavailable:      dispatch.Retryable,
		codes.Internal:         dispatch.Retryable,
	} {
		before := fake.Calls()["GetTopic"]
		fake.OnCall(func(_ context.Context, method string) error {
			if method != "GetTopic" {
				return nil
			}
			return status.Error(code, "injected")
		})
		err := publisher.Ready(t.Context(), logical)
		require.Error(t, err, code)
		require.Equal(t, class, dispatch.ClassOf(err), code)
		require.Equal(t, code.String(), dispatch.CodeOf(err))
		require.Equal(t, before+1, fake.Calls()["GetTopic"], "a probe is one request")
	}
}

// An account that may publish and nothing else may not look the topic up.
func TestReadyWithThePublisherRoleOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		allowed []string
		err     error
		class   dispatch.Class
		ready   bool
	}{
		{name: "may publish", allowed: []string{"pubsub.topics.publish"}, ready: true},
		{name: "may not publish", class: dispatch.Misconfigured},
		{name: "no such topic", err: status.Error(codes.NotFound, "no topic"), class: dispatch.Misconfigured},
		{name: "away", err: status.Error(codes.Unavailable, "away"), class: dispatch.Retryable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			addr := serveGuarded(t, &guarded{allowed: tc.allowed, err: tc.err})
			client, err := pubsub.Connect(t.Context(), pubsub.Config{Project: testProject, Emulator: addr})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			err = client.NewPublisher(testTopics).Ready(t.Context(), logical)
			if tc.ready {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.Equal(t, tc.class, dispatch.ClassOf(err))
		})
	}
}

// guarded is a Pub/Sub that forbids looking at topics but says who may publish.
// The fake knows no permissions.
type guarded struct {
	pubsubpb.UnimplementedPublisherServer
	iampb.UnimplementedIAMPolicyServer
	allowed []string
	err     error
}

func (*guarded) GetTopic(context.Context, *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	return nil, status.Error(codes.PermissionDenied, "pubsub.topics.get")
}

func (g *guarded) TestIamPermissions(_ context.Context, req *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	if g.err != nil || req.GetResource() != topicPath {
		return nil, g.err
	}
	return &iampb.TestIamPermissionsResponse{Permissions: g.allowed}, nil
}

func serveGuarded(t *testing.T, g *guarded) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	pubsubpb.RegisterPublisherServer(server, g)
	iampb.RegisterIAMPolicyServer(server, g)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return listener.Addr().String()
}
