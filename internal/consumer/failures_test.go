package consumer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

// Without a dead-letter policy nobody but the worker counts how often a message has failed.
func TestAFailingMessageWaitsLongerEachTimeWithoutAPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, name := w.client.PubSub().SubscriptionAdminClient, "projects/"+devstack.DefaultProject+"/subscriptions/"+subscription
	require.NoError(t, admin.DeleteSubscription(t.Context(), &pubsubpb.DeleteSubscriptionRequest{Subscription: name}))
	_, err := admin.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: name, Topic: "projects/" + devstack.DefaultProject + "/topics/" + topic, AckDeadlineSeconds: 60,
	})
	require.NoError(t, err)

	bad := uuid.Must(uuid.NewV7())
	var failed, passed atomic.Int64
	handler := func(_ context.Context, e consume.Event) error {
		if e.ID != bad {
			passed.Add(1)
			return nil
		}
		if failed.Add(1) > 5 {
			return nil
		}
		return errors.New("not now")
	}
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	var log bytes.Buffer
	copied := make(chan struct{})
	go func() { defer close(copied); _, _ = io.Copy(&log, reader) }()
	stop := w.running(handled(w.bare(16, consumer.Config{Log: zerolog.New(writer)}), handler))
	w.publish(license(bad, "pending", ""))
	w.eventually(func() bool { return failed.Load() == 4 }, "it is tried again")
	good := newIDs(50)
	for _, id := range good {
		w.publish(license(id, "pending", ""))
	}
	w.eventually(func() bool { return passed.Load() == 50 && failed.Load() == 6 }, "others pass it, and it succeeds")
	stop()
	require.NoError(t, writer.Close())
	<-copied

	var pauses []float64
	for line := range bytes.Lines(log.Bytes()) {
		var entry struct {
			Message string  `json:"message"`
			Pause   float64 `json:"retry_in_ms"`
		}
		require.NoError(t, json.Unmarshal(line, &entry))
		if entry.Message == "handler failed" {
			pauses = append(pauses, entry.Pause)
		}
	}
	require.Equal(t, []float64{100, 200, 400, 800, 1600}, pauses)
}
