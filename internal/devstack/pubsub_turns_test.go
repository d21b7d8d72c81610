package devstack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
)

// puller is one stream of a subscription.
type puller struct {
	pubsubpb.Subscriber_StreamingPullClient
	cancel context.CancelFunc
}

// open returns when the stream takes messages.
func open(t *testing.T, client pubsubpb.SubscriberClient, subscription string) puller {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	stream, err := client.StreamingPull(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&pubsubpb.StreamingPullRequest{
		Subscription: subscription, StreamAckDeadlineSeconds: 600, ProtocolVersion: 1,
	}))
	p := puller{stream, cancel}
	p.ping(t)
	return p
}

func (p puller) ping(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Send(&pubsubpb.StreamingPullRequest{}))
	reply, err := p.Recv()
	require.NoError(t, err)
	require.Empty(t, reply.GetReceivedMessages())
}

// read acknowledges what arrives and sends the stream's name for each message.
func (p puller) read(name string, arrived chan<- string) {
	for {
		reply, err := p.Recv()
		if err != nil {
			return
		}
		for _, m := range reply.GetReceivedMessages() {
			if p.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{m.GetAckId()}}) != nil {
				return
			}
			arrived <- name
		}
	}
}

// next waits for a message, but not for ever.
func next(t *testing.T, arrived <-chan string) string {
	t.Helper()
	select {
	case name := <-arrived:
		return name
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "nothing arrives any more")
		return ""
	}
}

// Two workers on one subscription share its messages, whichever came first.
func TestStreamsTakeTurns(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	client, subscription := b.subscribe(t, &pubsubpb.Subscription{AckDeadlineSeconds: 600})
	arrived := make(chan string, 100)
	pullers := map[string]puller{}
	for i := range 4 {
		name := fmt.Sprint(i)
		pullers[name] = open(t, client, subscription)
		go pullers[name].read(name, arrived)
	}
	counts := map[string]int{}
	for range 8 {
		require.NoError(t, b.publish(t.Context(), "x"))
		counts[next(t, arrived)]++
	}
	require.Equal(t, map[string]int{"0": 2, "1": 2, "2": 2, "3": 2}, counts)

	// Those that stay do not wait for the turn of one that has gone. It may take some with it.
	pullers["3"].cancel()
	for range 20 {
		require.NoError(t, b.publish(t.Context(), "x"))
	}
	for range 15 {
		next(t, arrived)
	}
}

// A stream that has had its turn still answers, and the answer holds no other up.
func TestARestingStreamAnswersPings(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	client, subscription := b.subscribe(t, &pubsubpb.Subscription{AckDeadlineSeconds: 600})
	first, second := open(t, client, subscription), open(t, client, subscription)
	require.NoError(t, b.publish(t.Context(), "x"))
	_, err := first.Recv()
	require.NoError(t, err)
	first.ping(t)
	require.NoError(t, b.publish(t.Context(), "y"))
	reply, err := second.Recv()
	require.NoError(t, err)
	require.Len(t, reply.GetReceivedMessages(), 1)
}

// A reader that is stuck keeps what it has taken, and nothing more.
func TestAStuckReaderHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := startPubSub(t)
	client, subscription := b.subscribe(t, &pubsubpb.Subscription{AckDeadlineSeconds: 600})
	open(t, client, subscription)
	reader, arrived := open(t, client, subscription), make(chan string, 100)
	go reader.read("reader", arrived)
	large := strings.Repeat("x", 256<<10)
	for range 20 {
		require.NoError(t, b.publish(t.Context(), large))
	}
	for range 15 {
		next(t, arrived)
	}
}
