package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outboxtest/natstest"
	"github.com/outboxctl/outboxctl/ui"
)

// A consumer that fails is seen on its page, on the overview and beside the event, and is retried by a plan.
func TestAConsumersFailuresAreSeenAndRetried(t *testing.T) {
	b := setup(t, operators)
	_, _, body := b.get("/consumers")
	require.Contains(t, body, "No consumer is known")
	var event string
	require.NoError(t, b.db.Pool.QueryRow(t.Context(), `SELECT id::text FROM outbox_events WHERE published_at IS NOT NULL LIMIT 1`).Scan(&event))
	_, err := b.db.Pool.Exec(t.Context(), `
		INSERT INTO outbox_consumer_failures (consumer, event_id, event_type, namespace, subscription, state, attempts, last_error)
		VALUES ('mailer', $1::text::uuid, 'order.ready', 'default', 'orders-sub', 'gave_up', 7, 'answered 500: <b>no paper</b>'), ('search', gen_random_uuid(), 'order.ready', 'default', 'x', 'failing', 1, 'later')`, event)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_consumers (id, consumer, subscription, host, pid, rate, lag, last_seen_at) VALUES (gen_random_uuid(), 'mailer', 'orders-sub', 'h', 1, 12.5, 90, now() + interval '1 hour')`)
	require.NoError(t, err)

	_, _, body = b.get("/consumers")
	for _, part := range []string{"orders-sub", "12.5/s", "1m30s", "gave up", "failing", "&lt;b&gt;no paper", "/events/" + event, "/consumers/mailer/retry", "outboxctl consumer list"} {
		require.Contains(t, body, part)
	}
	require.NotContains(t, body, "/consumers/search/retry", "it tries by itself")
	_, _, body = b.get("/consumers?consumer=search")
	require.NotContains(t, body, "no paper")
	status, _, _ := b.get("/consumers?state=odd")
	require.Equal(t, http.StatusBadRequest, status)
	_, _, body = b.get("/events/" + event)
	require.Contains(t, body, "Consumers that fail on it")
	require.Eventually(t, func() bool {
		_, _, body := b.get("/")
		return strings.Contains(body, "Consumer mailer gave up 1 event.")
	}, waitFor, tick)
	_, _, body = b.get("/consumers?consumer=mailer&state=gave_up")
	require.Contains(t, body, `data-label="Attempts">7<`)

	status, _, _ = b.form("/consumers/search/retry")
	require.Equal(t, http.StatusNotFound, status)
	status, to, _ := b.form("/consumers/mailer/retry")
	require.Equal(t, http.StatusSeeOther, status)
	plan := b.reaches(strings.TrimPrefix(to, "/plans/"), dlq.PlanReady)
	_, _, body = b.get(to)
	require.Contains(t, body, "retry for consumer mailer")
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_consumer_failures WHERE state = 'gave_up'`), "a plan changes nothing")
	status, _, body = b.run(plan)
	require.Equal(t, http.StatusSeeOther, status, body)
	require.Eventually(t, func() bool {
		return b.count(`SELECT count(*) FROM outbox_consumer_failures WHERE consumer = 'mailer' AND state = 'failing' AND attempts = 0`) == 1
	}, waitFor, tick)
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_events WHERE id::text = '`+event+`' AND published_at IS NULL`))
}

// What waits at the broker for a consumer is on its page, or why it is not known.
func TestWhatWaitsForAConsumer(t *testing.T) {
	server := natstest.Start(t, nil)
	js := natstest.Admin(t, server.ClientURL())
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "shop", Subjects: []string{"orders"}})
	_, err := js.CreateConsumer(t.Context(), "shop", jetstream.ConsumerConfig{Durable: "orders-sub", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	for range 3 {
		_, err := js.Publish(t.Context(), "orders", []byte("{}"))
		require.NoError(t, err)
	}
	client, err := nats.Connect(nats.Config{URL: server.ClientURL()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	b := setup(t, func(c *ui.Config) { c.Backlog = client.Backlog })
	_, err = b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_consumers (id, consumer, subscription, host, pid, rate) VALUES (gen_random_uuid(), 'audit', 'gone-sub', 'h', 1, 1), (gen_random_uuid(), 'mailer', 'orders-sub', 'h', 1, 1)`)
	require.NoError(t, err)
	var body string
	require.Eventually(t, func() bool {
		_, _, body = b.get("/consumers")
		return strings.Contains(body, `data-label="Waiting">3<`)
	}, waitFor, tick, "a broker that answers late is asked again")
	require.Equal(t, 1, strings.Count(body, `data-label="Waiting">3<`))
	require.Contains(t, body, `data-label="Waiting"><`, "one that is gone keeps no other from being measured")
	require.Contains(t, body, "Not all that waits is known: <bdi>consumer gone-sub")
}
