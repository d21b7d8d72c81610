package devstack_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// broker is the fake with a topic and a client that retries nothing, so that the true code is seen.
type broker struct {
	*devstack.PubSub
	conn   *grpc.ClientConn
	client pubsubpb.PublisherClient
	topic  string
}

func startPubSub(t *testing.T) broker {
	t.Helper()
	server, err := devstack.StartPubSub(t.Context(), devstack.PubSubParams{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })

	// With a window of its own choice a stream without a reader could take any number of messages.
	conn, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	b := broker{PubSub: server, conn: conn, client: pubsubpb.NewPublisherClient(conn), topic: "projects/" + server.Project + "/topics/t"}
	_, err = b.client.CreateTopic(t.Context(), &pubsubpb.Topic{Name: b.topic})
	require.NoError(t, err)
	return b
}

// subscribe creates a subscription on the topic and returns a client for it, and its name.
func (b broker) subscribe(t *testing.T, sub *pubsubpb.Subscription) (client pubsubpb.SubscriberClient, name string) {
	t.Helper()
	sub.Name, sub.Topic = "projects/"+b.Project+"/subscriptions/s", b.topic
	client = pubsubpb.NewSubscriberClient(b.conn)
	_, err := client.CreateSubscription(t.Context(), sub)
	require.NoError(t, err)
	return client, sub.GetName()
}

func (b broker) publish(ctx context.Context, bodies ...string) error {
	request := &pubsubpb.PublishRequest{Topic: b.topic}
	for _, body := range bodies {
		request.Messages = append(request.Messages, &pubsubpb.PubsubMessage{Data: []byte(body)})
	}
	_, err := b.client.Publish(ctx, request)
	return err
}

func (b broker) bodies() []string {
	bodies := []string{}
	for _, message := range b.Stored() {
		bodies = append(bodies, string(message.Data))
	}
	return bodies
}

func TestPubSubStoresWhatWasPublished(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	_, err := b.client.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: b.topic, Messages: []*pubsubpb.PubsubMessage{
		{Data: []byte("body"), Attributes: map[string]string{"k": "v"}, OrderingKey: "o"},
	}})
	require.NoError(t, err)

	stored := b.Stored()
	require.Len(t, stored, 1)
	require.WithinDuration(t, time.Now(), stored[0].PublishTime, time.Minute)
	stored[0].PublishTime = time.Time{}
	require.Equal(t, &pstest.Message{
		Topic: b.topic, ID: "m0", Data: []byte("body"), Attributes: map[string]string{"k": "v"}, OrderingKey: "o",
	}, stored[0])

	b.Forget()
	require.Empty(t, b.Stored())
}

func TestPubSubTakesLargeRequests(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	require.NoError(t, b.publish(t.Context(), string(make([]byte, 10<<20))))
	require.Len(t, b.Stored(), 1)
}

func TestPubSubFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault  devstack.PublishFault
		code   codes.Code
		stored []string
	}{
		"none":          {code: codes.OK, stored: []string{"a"}},
		"not stored":    {fault: devstack.PublishFault{Err: status.Error(codes.Unavailable, "away")}, code: codes.Unavailable, stored: []string{}},
		"misconfigured": {fault: devstack.PublishFault{Err: status.Error(codes.PermissionDenied, "no")}, code: codes.PermissionDenied, stored: []string{}},
		"reply lost":    {fault: devstack.PublishFault{LostReply: status.Error(codes.DeadlineExceeded, "late")}, code: codes.DeadlineExceeded, stored: []string{"a"}},
		"slow":          {fault: devstack.PublishFault{Delay: time.Hour}, code: codes.Canceled, stored: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startPubSub(t)
			seen := make(chan string, 1)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			b.OnPublish(func(_ context.Context, call devstack.PublishCall) devstack.PublishFault {
				seen <- fmt.Sprintf("%d %s %d", call.Number, call.Topic, len(call.Messages))
				if tc.fault.Delay > 0 {
					giveUp()
				}
				return tc.fault
			})
			require.Equal(t, tc.code, status.Code(b.publish(ctx, "a")))
			require.Equal(t, tc.stored, b.bodies())
			require.Equal(t, "1 "+b.topic+" 1", <-seen)

			b.OnPublish(nil)
			require.NoError(t, b.publish(t.Context(), "b"))
			require.Equal(t, append(tc.stored, "b"), b.bodies())
		})
	}
}

func TestPubSubRejectsTheWholeRequestForOneMessage(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	b.RejectMessages(func(_ string, message *pubsubpb.PubsubMessage) bool { return string(message.GetData()) == "bad" })

	require.Equal(t, codes.InvalidArgument, status.Code(b.publish(t.Context(), "good", "bad")))
	require.NoError(t, b.publish(t.Context(), "good"))
	require.Equal(t, []string{"good"}, b.bodies())
	require.Equal(t, map[string]int{"CreateTopic": 1, "Publish": 2}, b.Calls())
}

func TestPubSubFailsAnyCall(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	b.OnCall(func(_ context.Context, method string) error {
		if method == "GetTopic" {
			return status.Error(codes.Unauthenticated, "who?")
		}
		return nil
	})
	_, err := b.client.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: b.topic})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.NoError(t, b.publish(t.Context(), "a"))
}

func TestPubSubGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	addr := b.Addr()
	require.NoError(t, b.publish(t.Context(), "before"))

	b.Disconnect()
	require.Equal(t, codes.Unavailable, status.Code(b.publish(t.Context(), "meanwhile")))
	require.NoError(t, b.Reconnect())

	require.Equal(t, addr, b.Addr())
	require.Eventually(t, func() bool { return b.publish(t.Context(), "after") == nil }, time.Minute, 10*time.Millisecond)
	require.Equal(t, []string{"before", "after"}, b.bodies())

	require.NoError(t, b.Stop(t.Context()))
	require.Error(t, b.Reconnect())
	require.NoError(t, errors.Join(b.Stop(t.Context())), "stopping twice is fine")
}

func TestPubSubReportsTakenPort(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	port := listener.Addr().(*net.TCPAddr).Port

	_, err = devstack.StartPubSub(t.Context(), devstack.PubSubParams{Port: port})
	require.ErrorContains(t, err, "address already in use")
	server, err := devstack.StartPubSub(t.Context(), devstack.PubSubParams{Port: port, AnyPort: true})
	require.NoError(t, err)
	require.NotEqual(t, listener.Addr().String(), server.Addr())
	require.NoError(t, server.Stop(t.Context()))
}
