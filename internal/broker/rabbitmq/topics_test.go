package rabbitmq_test

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/outboxtest/rabbittest"
)

func TestEnsureAndList(t *testing.T) {
	t.Parallel()
	c := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Admin)})
	topics := map[string]string{"orders": "shop-orders"}
	plan := c.Plan(topics, nil)
	t.Cleanup(func() {
		ch := node.Channel(t)
		for _, q := range []string{"shop-orders-sub", "shop-orders-dead-letter"} {
			_, _ = ch.QueueDelete(q, false, false, false)
		}
		_ = ch.ExchangeDelete("shop-orders", false, false)
	})
	outcomes := func(p broker.EnsureParams) (got []string) {
		p.Plan = plan
		actions, err := c.Ensure(t.Context(), p)
		require.NoError(t, err)
		for _, a := range actions {
			got = append(got, a.Kind+" "+a.Name+" "+string(a.Outcome))
		}
		return got
	}
	all := func(outcome string) []string {
		return []string{"topic shop-orders " + outcome, "subscription shop-orders-dead-letter " + outcome, "subscription shop-orders-sub " + outcome}
	}
	require.Equal(t, all("missing"), outcomes(broker.EnsureParams{DryRun: true}))
	list, err := c.List(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, []broker.Topic{{Topic: "orders", Name: "shop-orders", State: broker.TopicMissing, Subscriptions: []string{}}}, list)
	require.Equal(t, all("created"), outcomes(broker.EnsureParams{}))
	require.Equal(t, all("exists"), outcomes(broker.EnsureParams{}))
	list, err = c.List(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, []broker.Topic{{Topic: "orders", Name: "shop-orders", State: broker.TopicReady, Subscriptions: []string{"shop-orders-sub"}}}, list)

	require.NoError(t, c.NewPublisher(topics).Publish(t.Context(), "orders", messages("a", 1, 10))[0].Err)
	require.Len(t, node.Stored(t, "shop-orders-sub"), 1, "the queue is bound")
	actions, err := c.Ensure(t.Context(), broker.EnsureParams{Plan: plan, Ordered: true})
	require.ErrorIs(t, err, broker.ErrIncomplete)
	require.Equal(t, broker.OutcomeDiffers, actions[2].Outcome, "it has several consumers at once")
}

// An account that may not is told so, for each thing; a node that is away is an error.
func TestEnsureRefusedAndAway(t *testing.T) {
	t.Parallel()
	c := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Limited)})
	plan := c.Plan(map[string]string{"orders": "forbidden"}, nil)
	actions, err := c.Ensure(t.Context(), broker.EnsureParams{Plan: plan})
	require.ErrorIs(t, err, broker.ErrIncomplete)
	for _, a := range actions {
		require.Equal(t, broker.OutcomeFailed, a.Outcome)
		require.Contains(t, a.Detail, "may not do that")
	}
	away := connect(t, rabbitmq.Config{URL: "amqp://127.0.0.1:1/"})
	_, err = away.List(t.Context(), plan)
	require.Error(t, err)
	why, _ := away.Explain(err)
	require.Equal(t, "it does not answer", why)
	_, err = away.Ensure(t.Context(), broker.EnsureParams{Plan: plan})
	require.Error(t, err)
	require.NotErrorIs(t, err, broker.ErrIncomplete)
}

// One exchange for all topics: the routing key tells them apart.
func TestSharedExchange(t *testing.T) {
	t.Parallel()
	c := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Admin), Exchange: "everything"})
	topics := map[string]string{"a": "shared-a", "b": "shared-b"}
	t.Cleanup(func() {
		ch := node.Channel(t)
		for _, q := range []string{"shared-a-sub", "shared-a-dead-letter", "shared-b-sub", "shared-b-dead-letter"} {
			_, _ = ch.QueueDelete(q, false, false, false)
		}
		_ = ch.ExchangeDelete("everything", false, false)
	})
	_, err := c.Ensure(t.Context(), broker.EnsureParams{Plan: c.Plan(topics, nil)})
	require.NoError(t, err)
	p := c.NewPublisher(topics)
	require.NoError(t, p.Publish(t.Context(), "a", messages("a", 2, 10))[0].Err)
	require.NoError(t, p.Publish(t.Context(), "b", messages("b", 1, 10))[0].Err)
	require.Len(t, node.Stored(t, "shared-a-sub"), 2)
	require.Len(t, node.Stored(t, "shared-b-sub"), 1)
}

// What is offered while the node is away is answered, costs nothing and is not stored later.
func TestNodeAway(t *testing.T) {
	t.Parallel()
	node.Need(t)
	topic, proxy := node.Topic(t, amqp.Table{"x-queue-type": "quorum"}), rabbittest.NewProxy(t, node)
	p := connect(t, rabbitmq.Config{URL: url(rabbittest.Admin, proxy.Addr())}).NewPublisher(map[string]string{"orders": topic})
	require.NoError(t, p.Publish(t.Context(), "orders", messages("before", 1, 10))[0].Err)
	proxy.Away()
	for p.Ready(t.Context(), "orders") == nil {
		require.NoError(t, t.Context().Err())
	}
	for _, r := range p.Publish(t.Context(), "orders", messages("away", 3, 10)) {
		require.Equal(t, dispatch.Retryable, dispatch.ClassOf(r.Err))
		require.ErrorIs(t, r.Err, dispatch.ErrUnsent)
	}
	proxy.Back(t)
	require.NoError(t, p.Ready(t.Context(), "orders"))
	require.NoError(t, p.Publish(t.Context(), "orders", messages("after", 1, 10))[0].Err)
	var ids []string
	for _, m := range node.Stored(t, topic) {
		ids = append(ids, m.EventID)
	}
	require.Equal(t, []string{"before-0", "after-0"}, ids)
}

// A node that restarts is published to again, and one whose memory is full takes nothing until it has room: both cost no
// event anything. It is not parallel: the node is the one of all tests.
func TestNodeRestartsAndIsFull(t *testing.T) {
	node.Need(t)
	topic := node.Topic(t, amqp.Table{"x-queue-type": "quorum"})
	p := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Admin)}).NewPublisher(map[string]string{"orders": topic})
	require.NoError(t, p.Publish(t.Context(), "orders", messages("before", 1, 10))[0].Err)
	untilTaken := func(prefix string) {
		for p.Publish(t.Context(), "orders", messages(prefix, 1, 10))[0].Err != nil {
			require.NoError(t, t.Context().Err())
		}
	}
	node.Control(t, "stop_app")
	for p.Ready(t.Context(), "orders") == nil {
		require.NoError(t, t.Context().Err())
	}
	for _, r := range p.Publish(t.Context(), "orders", messages("away", 3, 10)) {
		require.Equal(t, dispatch.Retryable, dispatch.ClassOf(r.Err), "%v", r.Err)
		require.ErrorIs(t, r.Err, dispatch.ErrUnsent)
	}
	node.Control(t, "start_app")
	untilTaken("after")

	node.Control(t, "set_vm_memory_high_watermark", "0.00000001")
	for full := false; !full; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := p.Publish(ctx, "orders", messages("full", 1, 10))[0].Err
		cancel()
		full = dispatch.CodeOf(err) == "blocked"
		if err != nil {
			require.Equal(t, dispatch.Retryable, dispatch.ClassOf(err), "%v", err)
		}
		require.NoError(t, t.Context().Err())
	}
	node.Control(t, "set_vm_memory_high_watermark", "0.9")
	untilTaken("room")
}
