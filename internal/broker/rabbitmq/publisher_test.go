package rabbitmq_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	front "github.com/outboxctl/outboxctl/dispatch/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/outboxtest/rabbittest"
)

var node *rabbittest.Node

func TestMain(m *testing.M) {
	os.Exit(rabbittest.Run(m, &node))
}

func connect(t testing.TB, cfg rabbitmq.Config) *rabbitmq.Client {
	t.Helper()
	node.Need(t)
	cfg.PublishTimeout = time.Minute // 2501 messages of a key, one by one, on a machine with other work
	client, err := rabbitmq.Connect(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func url(account, addr string) string { return "amqp://" + account + "@" + addr + "/" }

func messages(prefix string, n, size int) []dispatch.Message {
	msgs := make([]dispatch.Message, n)
	for i := range msgs {
		id := fmt.Sprintf("%s-%d", prefix, i)
		msgs[i] = dispatch.Message{EventID: id, EventType: "order.created", Data: make([]byte, size), Attributes: map[string]string{"event_id": id}}
	}
	return msgs
}

// requireVerdict checks the first result's class and code.
func requireVerdict(t *testing.T, class dispatch.Class, code string, results []dispatch.Result) {
	t.Helper()
	require.Error(t, results[0].Err)
	require.Equal(t, class.String()+" "+code, dispatch.ClassOf(results[0].Err).String()+" "+dispatch.CodeOf(results[0].Err), results[0].Err)
}

func TestPublisherConformance(t *testing.T) {
	t.Parallel()
	node.Need(t)
	dispatchtest.Run(t, node.Broker(func(t *testing.T, addr string, topics map[string]string) dispatch.Publisher {
		return connect(t, rabbitmq.Config{URL: url(rabbittest.Admin, addr)}).NewPublisher(topics)
	}))
}

// The public package, on connections of a program.
func TestFrontConformance(t *testing.T) {
	t.Parallel()
	node.Need(t)
	dispatchtest.Run(t, node.Broker(func(t *testing.T, addr string, topics map[string]string) dispatch.Publisher {
		p := front.New(func() (*amqp.Connection, error) { return amqp.Dial(url(rabbittest.Admin, addr)) }, topics, front.Options{})
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return patient{p}
	}))
}

// patient gives a call a minute, as connect does: a dispatcher says how long one may take.
type patient struct{ front.Publisher }

func (p patient) Publish(ctx context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.Publisher.Publish(ctx, topic, msgs)
}

// What a real node says of each thing that can be wrong with a message or a topic.
func TestAnswersOfANode(t *testing.T) {
	t.Parallel()
	node.Need(t)
	ctx := t.Context()
	topic := node.Topic(t, nil)
	full := "full-" + topic
	ch := node.Channel(t)
	require.NoError(t, ch.ExchangeDeclare("unbound", amqp.ExchangeTopic, false, true, false, false, nil))
	require.NoError(t, ch.ExchangeDeclare(full, amqp.ExchangeTopic, false, true, false, false, nil))
	_, err := ch.QueueDeclare(full, false, true, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(full, "#", full, false, nil))
	topics := map[string]string{"ok": topic, "missing": "nowhere", "unbound": "unbound", "full": full}
	p := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Admin)}).NewPublisher(topics)

	require.Equal(t, []dispatch.Result{{MessageID: "a-0"}}, p.Publish(ctx, "ok", messages("a", 1, 10)))
	requireVerdict(t, dispatch.Misconfigured, "404", p.Publish(ctx, "missing", messages("b", 2, 10)))
	requireVerdict(t, dispatch.Misconfigured, "404", p.Publish(ctx, "not configured", messages("b", 2, 10)))
	requireVerdict(t, dispatch.Misconfigured, "312", p.Publish(ctx, "unbound", messages("c", 2, 10)))
	for len(node.Stored(t, topic)) > 0 {
	}
	_ = p.Publish(ctx, "full", messages("d", 3, 10)) // how many fit is the node's to say
	requireVerdict(t, dispatch.Retryable, "nack", p.Publish(ctx, "full", messages("e", 1, 10)))
	requireVerdict(t, dispatch.Refused, "406", p.Publish(ctx, "ok", messages("f", 1, 18<<20)))
	large := append(messages("g", 1, 18<<20), messages("h", 2, 10)...)
	results := p.Publish(ctx, "ok", large)
	requireVerdict(t, dispatch.Rejected, "406", results)
	require.NoError(t, results[1].Err)
	require.NoError(t, results[2].Err)
	long := messages("i", 1, 10)
	long[0].EventType = strings.Repeat("x", 300)
	requireVerdict(t, dispatch.Refused, "routing_key", p.Publish(ctx, "ok", long))

	limited := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Limited)}).NewPublisher(topics)
	requireVerdict(t, dispatch.Misconfigured, "403", limited.Publish(ctx, "ok", messages("j", 1, 10)))
	wrong := connect(t, rabbitmq.Config{URL: node.URL("outbox:wrong")}).NewPublisher(topics)
	results = wrong.Publish(ctx, "ok", messages("k", 1, 10))
	requireVerdict(t, dispatch.Misconfigured, "403", results)
	require.ErrorIs(t, results[0].Err, dispatch.ErrUnsent)
	vhost := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Admin) + "nowhere"}).NewPublisher(topics)
	requireVerdict(t, dispatch.Misconfigured, "530", vhost.Publish(ctx, "ok", messages("l", 1, 10)))
	away := connect(t, rabbitmq.Config{URL: "amqp://127.0.0.1:1/"}).NewPublisher(topics)
	requireVerdict(t, dispatch.Retryable, "connection", away.Publish(ctx, "ok", messages("m", 1, 10)))
}

// The routing key is made of the event, and queues choose by it.
func TestRoutingKey(t *testing.T) {
	t.Parallel()
	node.Need(t)
	topic := node.Topic(t, nil)
	ch := node.Channel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(q.Name, topic+".order.*", topic, false, nil))
	p := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Admin)}).NewPublisher(map[string]string{"orders": topic})
	require.NoError(t, p.Publish(t.Context(), "orders", messages("a", 1, 10))[0].Err)
	d, ok, err := ch.Get(q.Name, true)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, topic+".order.created", d.RoutingKey)
	require.Equal(t, []any{"application/json", amqp.Persistent, "a-0", "order.created"}, []any{d.ContentType, d.DeliveryMode, d.MessageId, d.Type})
}
