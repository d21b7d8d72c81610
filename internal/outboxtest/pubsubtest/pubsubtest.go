// Package pubsubtest makes the Pub/Sub fake fail as tests want it to, and runs the conformance
// suite of publishers on it.
package pubsubtest

import (
	"context"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

// Broker is a fake with a publisher to a logical topic, which is topicPath there, for a test.
func Broker(
	topic, topicPath string, start func(*testing.T) (*devstack.PubSub, dispatch.Publisher),
) func(*testing.T) dispatchtest.Broker {
	return func(t *testing.T) dispatchtest.Broker {
		t.Helper()
		fake, publisher := start(t)
		var mu sync.Mutex
		rejected := map[string]bool{}
		fake.RejectMessages(func(_ string, m *pubsubpb.PubsubMessage) bool {
			mu.Lock()
			defer mu.Unlock()
			return rejected[m.GetAttributes()["event_id"]]
		})
		return dispatchtest.Broker{
			Publisher:    publisher,
			Topic:        topic,
			MissingTopic: "missing",
			Stored: func() (msgs []dispatch.Message) {
				for _, m := range fake.Stored() {
					require.Equal(t, topicPath, m.Topic)
					msgs = append(msgs, dispatch.Message{EventID: m.Attributes["event_id"], Data: m.Data,
						Attributes: m.Attributes, OrderingKey: m.OrderingKey})
				}
				return msgs
			},
			Fail: func(class dispatch.Class) {
				FailAll(fake, map[dispatch.Class]codes.Code{
					dispatch.Retryable: codes.Unavailable, dispatch.Refused: codes.InvalidArgument, dispatch.Misconfigured: codes.PermissionDenied,
				}[class])
			},
			Recover: func() { fake.OnPublish(nil) },
			Reject: func(id string) {
				mu.Lock()
				defer mu.Unlock()
				rejected[id] = true
			},
			Away: func() func() {
				fake.Disconnect()
				return func() { require.NoError(t, fake.Reconnect()) }
			},
			Hold: func() (<-chan struct{}, func()) { return Hold(fake) },
		}
	}
}

// FailAll answers every Publish with a code.
func FailAll(fake *devstack.PubSub, code codes.Code) {
	fake.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
		return devstack.PublishFault{Err: status.Error(code, "injected")}
	})
}

// Hold keeps every Publish unanswered until released. That the caller gave up
// does not end it: an answer sent at that moment could overtake the caller's own timer.
func Hold(fake *devstack.PubSub) (arrived <-chan struct{}, release func()) {
	signal, gate := make(chan struct{}, 1), make(chan struct{})
	fake.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
		select {
		case signal <- struct{}{}:
		default:
		}
		<-gate
		return devstack.PublishFault{}
	})
	return signal, sync.OnceFunc(func() { close(gate) })
}
