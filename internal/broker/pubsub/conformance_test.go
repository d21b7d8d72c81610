package pubsub_test

import (
	"testing"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest/pubsubtest"
)

func TestPublisherConformance(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, pubsubtest.Broker(logical, topicPath, func(t *testing.T) (*devstack.PubSub, dispatch.Publisher) { return start(t, pubsub.Config{}) }))
}
