package pubsub_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest/pubsubtest"
)

// One request must be one answer: a retry inside the client would hide the code
// and could store the message twice behind the dispatcher's back.
func TestPublishAsksOnce(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.Unknown, codes.ResourceExhausted, codes.Canceled} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			fake, publisher := start(t, pubsub.Config{})
			pubsubtest.FailAll(fake, code)
			results := publisher.Publish(t.Context(), logical, []dispatch.Message{message("e1", "{}")})
			require.Equal(t, code.String(), dispatch.CodeOf(results[0].Err))
			require.Equal(t, 1, fake.Calls()["Publish"])
		})
	}
}

func TestPublishReplyLost(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{})
	fake.OnPublish(func(_ context.Context, call devstack.PublishCall) devstack.PublishFault {
		if call.Number == 1 {
			return devstack.PublishFault{LostReply: status.Error(codes.Unavailable, "connection reset")}
		}
		return devstack.PublishFault{}
	})
	msgs := []dispatch.Message{message("e1", "{}"), message("e2", "{}")}
	for _, r := range publisher.Publish(t.Context(), logical, msgs) {
		require.Equal(t, dispatch.Retryable, dispatch.ClassOf(r.Err))
	}
	// The error did not mean "not stored". Sending again doubles, and says so.
	for _, r := range publisher.Publish(t.Context(), logical, msgs) {
		require.NoError(t, r.Err)
	}
	require.Equal(t, []string{"e1", "e2", "e1", "e2"}, storedIDs(fake))
}

// A publish that was given up may succeed all the same.
func TestPublishCancelledMayStillLand(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{})
	arrived, release := pubsubtest.Hold(fake)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []dispatch.Result, 1)
	go func() { done <- publisher.Publish(ctx, logical, []dispatch.Message{message("e1", "{}")}) }()
	<-arrived
	cancel()
	require.Equal(t, "Canceled", dispatch.CodeOf((<-done)[0].Err))
	release()
	require.Eventually(t, func() bool { return slices.Equal(storedIDs(fake), []string{"e1"}) }, time.Minute, time.Millisecond)
}

func TestPublishTimeout(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{PublishTimeout: 50 * time.Millisecond})
	_, release := pubsubtest.Hold(fake)
	defer release()
	results := publisher.Publish(t.Context(), logical, []dispatch.Message{message("e1", "{}")})
	require.Equal(t, "DeadlineExceeded", dispatch.CodeOf(results[0].Err))
	require.Equal(t, dispatch.Retryable, dispatch.ClassOf(results[0].Err))
}

// The largest request the broker takes passes; one byte more is refused here,
// without asking the broker, and without hurting its neighbours.
func TestPublishAtTheSizeLimit(t *testing.T) {
	t.Parallel()
	sized := func(size int) dispatch.Message {
		m := message("big", "")
		req := &pubsubpb.PublishRequest{Topic: topicPath, Messages: []*pubsubpb.PubsubMessage{{Data: make([]byte, size), Attributes: m.Attributes}}}
		m.Data = make([]byte, size-(proto.Size(req)-size))
		return m
	}
	for _, tc := range []struct {
		name string
		size int
		ok   bool
	}{
		{"one below", pubsub.MaxRequestBytes - 1, true},
		{"at the limit", pubsub.MaxRequestBytes, true},
		{"one above", pubsub.MaxRequestBytes + 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fake, publisher := start(t, pubsub.Config{})
			results := publisher.Publish(t.Context(), logical, []dispatch.Message{message("before", "{}"), sized(tc.size), message("after", "{}")})
			require.NoError(t, results[0].Err)
			require.NoError(t, results[2].Err)
			ids := storedIDs(fake)
			slices.Sort(ids)
			if tc.ok {
				require.NoError(t, results[1].Err)
				require.Equal(t, []string{"after", "before", "big"}, ids)
				require.Equal(t, 3, fake.Calls()["Publish"])
				return
			}
			require.Equal(t, dispatch.Rejected, dispatch.ClassOf(results[1].Err))
			require.Equal(t, []string{"after", "before"}, ids)
			require.Equal(t, 2, fake.Calls()["Publish"], "no request for what cannot be sent")
		})
	}
}

// Requests wait for room rather than pile up in memory, and give up waiting in time.
func TestPublishWaitsForRoom(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{Concurrency: 1})
	arrived, release := pubsubtest.Hold(fake)
	defer release()
	first := make(chan []dispatch.Result, 1)
	go func() { first <- publisher.Publish(t.Context(), logical, []dispatch.Message{message("e1", "{}")}) }()
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	results := publisher.Publish(ctx, logical, []dispatch.Message{message("e2", "{}")})
	require.Equal(t, "unsent", dispatch.CodeOf(results[0].Err))
	require.ErrorIs(t, results[0].Err, dispatch.ErrUnsent)
	require.Equal(t, 1, fake.Calls()["Publish"], "the second request was sent without room")
	release()
	require.NoError(t, (<-first)[0].Err)
}

func TestPublishAcrossAnOutage(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{})
	msgs := []dispatch.Message{message("e1", "{}")}
	require.NoError(t, publisher.Publish(t.Context(), logical, msgs)[0].Err)
	fake.Disconnect()
	err := publisher.Publish(t.Context(), logical, msgs)[0].Err
	require.Equal(t, "Unavailable", dispatch.CodeOf(err))
	require.Equal(t, dispatch.Retryable, dispatch.ClassOf(publisher.Ready(t.Context(), logical)))
	require.NoError(t, fake.Reconnect())
	require.Eventually(t, func() bool {
		return publisher.Publish(t.Context(), logical, msgs)[0].Err == nil
	}, time.Minute, 10*time.Millisecond)
}

// What is ready takes messages: a trial that fails after the broker has said yes
// would cost a row a second attempt of the same outage.
func TestReadyAfterAnOutageSpeaksForThePublishes(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{})
	msgs := []dispatch.Message{message("e1", "{}")}
	fake.Disconnect()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 12 { // so that every connection has been refused more than once, and waits
		require.Error(t, publisher.Publish(t.Context(), logical, msgs)[0].Err)
		<-tick.C
	}
	require.NoError(t, fake.Reconnect())
	require.Eventually(t, func() bool { return publisher.Ready(t.Context(), logical) == nil }, time.Minute, time.Millisecond)
	for range 8 {
		require.NoError(t, publisher.Publish(t.Context(), logical, msgs)[0].Err)
	}
}

// A typing error in a topic's name is answered with the code of a bad message.
// It must pause the topic, not kill its events.
func TestPublishToAnImpossibleName(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	publisher := connect(t, fake, pubsub.Config{}).NewPublisher(map[string]string{logical: "no blanks allowed"})
	require.Equal(t, dispatch.Misconfigured, dispatch.ClassOf(publisher.Publish(t.Context(), logical, []dispatch.Message{message("e1", "{}")})[0].Err))
	require.Equal(t, dispatch.Misconfigured, dispatch.ClassOf(publisher.Ready(t.Context(), logical)))
	require.Equal(t, dispatch.Misconfigured, dispatch.ClassOf(publisher.Ready(t.Context(), "unheard-of")))
	require.Empty(t, fake.Calls())
}
