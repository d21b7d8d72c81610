package rabbittest

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
)

// Topic makes an exchange with a queue of the same name that takes all of it, and returns the name.
func (n *Node) Topic(t testing.TB, queue amqp.Table) string {
	t.Helper()
	name := fmt.Sprintf("t-%s", t.Name())
	var ch *amqp.Channel
	// A node that has just started may refuse a queue with replicas, and closes the channel then.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		ch = n.Channel(t)
		require.NoError(c, ch.ExchangeDeclare(name, amqp.ExchangeTopic, true, false, false, false, nil))
		_, err := ch.QueueDeclare(name, true, false, false, false, queue)
		require.NoError(c, err)
	}, time.Minute, 100*time.Millisecond)
	require.NoError(t, ch.QueueBind(name, "#", name, false, nil))
	t.Cleanup(func() {
		_, _ = ch.QueueDelete(name, false, false, false)
		_ = ch.ExchangeDelete(name, false, false)
	})
	return name
}

// Stored empties a queue, and returns what it held as the messages it was made of.
func (n *Node) Stored(t testing.TB, queue string) (out []dispatch.Message) {
	t.Helper()
	ch := n.Channel(t)
	for {
		d, ok, err := ch.Get(queue, true)
		require.NoError(t, err)
		if !ok {
			return out
		}
		m := dispatch.Message{EventID: d.MessageId, Data: d.Body, Attributes: map[string]string{}}
		for name, value := range d.Headers {
			switch {
			case name == "ordering_key":
				m.OrderingKey = value.(string)
			case name != "x-delivery-count": // of the queue
				m.Attributes[name] = value.(string)
			}
		}
		out = append(out, m)
	}
}

// Broker is a topic with a publisher to it, for a test.
func (n *Node) Broker(
	open func(t *testing.T, addr string, topics map[string]string) dispatch.Publisher,
) func(*testing.T) dispatchtest.Broker {
	return func(t *testing.T) dispatchtest.Broker {
		t.Helper()
		n.Need(t)
		p, topic := NewProxy(t, n), n.Topic(t, nil)
		var all []dispatch.Message
		return p.Broker(dispatchtest.Broker{
			Publisher: open(t, p.Addr(), map[string]string{"orders": topic, "missing": "nowhere"}),
			Topic:     "orders", MissingTopic: "missing",
			Stored: func() []dispatch.Message {
				all = append(all, n.Stored(t, topic)...)
				return all
			},
			Away: func() func() {
				p.Away()
				return func() { p.Back(t) }
			},
		})
	}
}
