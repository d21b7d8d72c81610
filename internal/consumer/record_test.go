package consumer_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/consumer"
)

// What a handler fails on is in the database until it succeeds.
func TestFailuresAreRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var answers atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if answers.Add(1) <= 2 {
			http.Error(rw, "no paper left", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	worker := handled(w.bare(16, consumer.Config{Database: w.pool, Subscription: subscription}), consumer.PostTo(server.URL, 1))
	id, good := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	w.publish(license(id, "pending", ""))
	stop := w.running(worker)
	w.eventually(func() bool { return answers.Load() == 2 }, "it failed twice")
	w.eventually(func() bool {
		return w.count(`SELECT count(*) FROM outbox_consumer_failures WHERE state = 'failing' AND attempts = 2`) == 1
	}, "and that is recorded")
	var got [5]string
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT consumer, event_id::text, event_type, subscription, last_error FROM outbox_consumer_failures`).
		Scan(&got[0], &got[1], &got[2], &got[3], &got[4]))
	require.Equal(t, [5]string{notifications.Consumer, id.String(), notifications.EventType, subscription,
		"the service answered 500 Internal Server Error: no paper left"}, got)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM outbox_consumers`))
	w.publish(license(good, "pending", ""))
	w.eventually(func() bool { return w.count(`SELECT count(*) FROM outbox_consumer_failures`) == 0 }, "it succeeded")
	stop()
	require.Zero(t, w.count(`SELECT count(*) FROM outbox_consumers`), "a worker that ends says so")
}

// No retry helps a malformed event: it is given up at once, and stays so when it comes again.
func TestMalformedIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := consume.NewRouter(w.guard(consume.Options{}), consume.RouterOptions{
		Log: slog.New(slog.DiscardHandler), Database: w.pool, MaxDeliveries: 10,
	})
	var err error
	r.HandleOthers(func(context.Context, consume.Event) error { return err })
	attributes := map[string]string{consume.AttrEventID: uuid.NewString(), consume.AttrEventType: "order.ready", "namespace": "shop", "tenant_id": "acme"}
	for _, err = range []error{consume.Malformed(errors.New("door is missing")), errors.New("away")} {
		_, _ = r.Deliver(t.Context(), anyMessage{}, attributes, nil)
		require.Equal(t, 1, w.count(`SELECT count(*) FROM outbox_consumer_failures WHERE state = 'gave_up' AND namespace = 'shop' AND tenant_id = 'acme'`))
	}
	err = nil
	outcome, _ := r.Deliver(t.Context(), anyMessage{}, attributes, nil)
	require.Equal(t, consume.Processed, outcome)
	require.Zero(t, w.count(`SELECT count(*) FROM outbox_consumer_failures`))
}

// With --max-attempts an event is given up and acknowledged, although the subscription has a dead-letter policy; that is counted once.
func TestMaxAttemptsEndIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	worker := handled(w.bare(16, consumer.Config{Database: w.pool, MaxAttempts: 2, Metrics: registry}), func(context.Context, consume.Event) error {
		return errors.New("never")
	})
	id := uuid.Must(uuid.NewV7())
	_, err := w.pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
		VALUES ($1, 'license_status_changed', 'license', gen_random_uuid(), '{}', now())`, id)
	require.NoError(t, err)
	event := license(id, "pending", "")
	for _, answer := range []string{"given back", "acknowledged"} {
		var got answered
		outcome, _ := worker.Router.Deliver(t.Context(), &got, event.Attributes, event.Data)
		require.Equal(t, consume.Failed, outcome)
		require.EqualValues(t, answer, got)
	}
	require.Equal(t, 1, w.count(`SELECT count(*) FROM outbox_consumer_failures WHERE state = 'gave_up' AND attempts = 2`))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP outbox_consumer_gave_up_total Times that an event was given up: it is not tried again, or left to the dead-letter policy.
# TYPE outbox_consumer_gave_up_total counter
outbox_consumer_gave_up_total{consumer="compliance"} 1
`), "outbox_consumer_gave_up_total"))
}

// A handler with typed data whose effect is one, whatever Redis remembers.
func TestOnTx(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.pool.Exec(t.Context(), `CREATE TABLE doors (door int)`)
	require.NoError(t, err)
	guard := w.guard(consume.Options{})
	r := consume.NewRouter(guard, consume.RouterOptions{Log: slog.New(slog.DiscardHandler)})
	type ready struct {
		Door int `json:"door"`
	}
	consume.OnTx(r, "order.ready", w.pool, func(ctx context.Context, tx pgx.Tx, _ consume.Event, order ready) error {
		_, err := tx.Exec(ctx, `INSERT INTO doors VALUES ($1)`, order.Door)
		return err
	})
	id := uuid.New()
	deliver := func(id uuid.UUID, body string) consume.Outcome {
		outcome, _ := r.Deliver(t.Context(), anyMessage{}, map[string]string{consume.AttrEventID: id.String(), consume.AttrEventType: "order.ready"}, []byte(body))
		return outcome
	}
	require.Equal(t, consume.Processed, deliver(id, `{"door": 7}`))
	require.NoError(t, guard.Delete(t.Context(), id))
	require.Equal(t, consume.DuplicateInbox, deliver(id, `{"door": 7}`))
	require.Equal(t, consume.Invalid, deliver(uuid.New(), `{"door": "seven"}`))
	require.Equal(t, 7, w.count(`SELECT sum(door) FROM doors`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM inbox_events`))
}
