package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	ours "github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) {
	outboxtest.Main(m,
		// The client notices the end of its stream at its next tick, up to ten seconds later.
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"), // started by an init function, never stopped
	)
}

// Every event is published twice, and one of another type beside it; each of
// ours has one notification, and the worker ends when told.
func TestWorker(t *testing.T) {
	db, rdb, fake := outboxtest.DB(t), outboxtest.Redis(t), outboxtest.PubSub(t)
	require.NoError(t, notifications.CreateTable(t.Context(), db.Pool)) // the worker does it too, but is asked for its rows before
	t.Setenv("PUBSUB_EMULATOR_HOST", fake.Addr())                       // Google's client reads it
	client, err := ours.Connect(t.Context(), ours.Config{Project: fake.Project, Emulator: fake.Addr()})
	require.NoError(t, err)
	defer client.Close()
	plan := ours.Plan(map[string]string{"domain": "events"}, map[string]string{"domain": "events-sub"})
	outboxtest.Ensure(t, client.Ensure, broker.EnsureParams{Plan: plan})

	publisher := client.PubSub().Publisher("events")
	defer publisher.Stop()
	publish := func(id uuid.UUID, eventType string) {
		_, err := publisher.Publish(t.Context(), &pubsub.Message{
			Attributes: map[string]string{consume.AttrEventID: id.String(), consume.AttrEventType: eventType},
			Data: fmt.Appendf(nil, `{"version":1,"eventId":%q,"data":{"licenseId":%q,"storeId":%q,"status":"verified"}}`,
				id, uuid.New(), uuid.New()),
		}).Get(t.Context())
		require.NoError(t, err)
	}
	const events = 5
	for range events {
		id := uuid.Must(uuid.NewV7())
		publish(id, notifications.EventType)
		publish(id, notifications.EventType)
		publish(uuid.Must(uuid.NewV7()), "order_created")
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, func(name string) string {
			return map[string]string{
				"DATABASE_URL": db.URL, "REDIS_URL": rdb.URL, "GOOGLE_CLOUD_PROJECT": fake.Project, "SUBSCRIPTION": "events-sub",
			}[name]
		})
	}()
	count := func(query string) (n int) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return count(`SELECT count(*) FROM notifications`) == events }, time.Minute, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, events, count(`SELECT count(DISTINCT event_id) FROM notifications`))
	require.Equal(t, events, count(`SELECT count(*) FROM inbox_events WHERE consumer = 'compliance'`))
}
