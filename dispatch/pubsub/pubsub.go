// Package pubsub is the Publisher for Google Cloud Pub/Sub, on a client of yours.
package pubsub

import (
	"cloud.google.com/go/pubsub/v2"

	"github.com/outboxctl/outboxctl/dispatch"
	broker "github.com/outboxctl/outboxctl/internal/broker/pubsub"
)

// New returns a Publisher to the topics that stand for the logical ones, which are the keys of
// topics. A value is the id of a topic in the client's project, or the full path of one in another.
// The client stays the caller's to close; its retries are not used, so that the dispatcher sees the
// broker's first answer.
func New(client *pubsub.Client, topics map[string]string) dispatch.Publisher {
	return broker.Over(client).NewPublisher(topics)
}
