package pubsub_test

import (
	"context"
	"testing"

	google "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/dispatch/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/pubsubtest"
)

// The answer is the broker's own, not the end of the time that a client spends on retries.
func TestTheFirstAnswerIsTold(t *testing.T) {
	t.Parallel()
	fake, client := plainClient(t)
	pubsubtest.FailAll(fake, codes.Unavailable)
	results := pubsub.New(client, map[string]string{"orders": "shop-orders"}).Publish(t.Context(), "orders", []dispatch.Message{{EventID: "e", Data: []byte("{}")}})
	require.Equal(t, codes.Unavailable.String(), dispatch.CodeOf(results[0].Err))
}

// plainClient is a client as any program makes it, of a fake with one topic.
func plainClient(t testing.TB) (*devstack.PubSub, *google.Client) {
	t.Helper()
	fake := outboxtest.PubSub(t)
	ctx := context.Background()
	client, err := google.NewClient(ctx, fake.Project, option.WithEndpoint(fake.Addr()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, err = client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/" + fake.Project + "/topics/shop-orders"})
	require.NoError(t, err)
	return fake, client
}

// The client is as any program makes it: it would retry what fails, until the time is over.
func TestConformanceOnAPlainClient(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, pubsubtest.Broker("orders", "projects/"+devstack.DefaultProject+"/topics/shop-orders", func(t *testing.T) (*devstack.PubSub, dispatch.Publisher) {
		fake, client := plainClient(t)
		return fake, pubsub.New(client, map[string]string{"orders": "shop-orders"})
	}))
}
