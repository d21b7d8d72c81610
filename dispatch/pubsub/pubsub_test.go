package pubsub_test

import (
	"context"
	"sync"
	"testing"

	google "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/dispatch/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// The answer is the broker's own, not the end of the time that a client spends on retries.
func TestTheFirstAnswerIsTold(t *testing.T) {
	t.Parallel()
	fake, client := plainClient(t)
	fake.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
		return devstack.PublishFault{Err: status.Error(codes.Unavailable, "injected")}
	})
	results := pubsub.New(client, map[string]string{"orders": "shop-orders"}).Publish(t.Context(), "orders", []dispatch.Message{{EventID: "e", Data: []byte("{}")}})
	require.Equal(t, codes.Unavailable.String(), dispatch.CodeOf(results[0].Err))
}

// plainClient is a client as anybody makes it, of a fake with one topic.
func plainClient(t *testing.T) (*devstack.PubSub, *google.Client) {
	t.Helper()
	fake := outboxtest.PubSub(t)
	client, err := google.NewClient(t.Context(), fake.Project, option.WithEndpoint(fake.Addr()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, err = client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/" + fake.Project + "/topics/shop-orders"})
	require.NoError(t, err)
	return fake, client
}

// The client is as anybody makes it: it would retry what fails, until the time is over.
func TestConformanceOnAPlainClient(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, func(t *testing.T) dispatchtest.Broker {
		fake, client := plainClient(t)
		var mu sync.Mutex
		rejected := map[string]bool{}
		fake.RejectMessages(func(_ string, m *pubsubpb.PubsubMessage) bool {
			mu.Lock()
			defer mu.Unlock()
			return rejected[m.GetAttributes()["event_id"]]
		})
		return dispatchtest.Broker{
			Publisher:    pubsub.New(client, map[string]string{"orders": "shop-orders"}),
			Topic:        "orders",
			MissingTopic: "missing",
			Stored: func() (msgs []dispatch.Message) {
				for _, m := range fake.Stored() {
					msgs = append(msgs, dispatch.Message{EventID: m.Attributes["event_id"], Data: m.Data, Attributes: m.Attributes, OrderingKey: m.OrderingKey})
				}
				return msgs
			},
			Fail: func(class dispatch.Class) {
				code := map[dispatch.Class]codes.Code{
					dispatch.Retryable: codes.Unavailable, dispatch.Refused: codes.InvalidArgument, dispatch.Misconfigured: codes.PermissionDenied,
				}[class]
				fake.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
					return devstack.PublishFault{Err: status.Error(code, "injected")}
				})
			},
			Recover: func() { fake.OnPublish(nil) },
			Reject: func(id string) {
				mu.Lock()
				defer mu.Unlock()
				rejected[id] = true
			},
			Hold: func() (<-chan struct{}, func()) {
				arrived, gate := make(chan struct{}, 1), make(chan struct{})
				fake.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
					select {
					case arrived <- struct{}{}:
					default:
					}
					<-gate
					return devstack.PublishFault{}
				})
				return arrived, sync.OnceFunc(func() { close(gate) })
			},
		}
	})
}
