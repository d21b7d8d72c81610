// Package kafka is the Publisher for Apache Kafka, on a client of yours.
package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxctl/outboxctl/dispatch"
	broker "github.com/outboxctl/outboxctl/internal/broker/kafka"
)

// New returns a Publisher to the topics that stand for the logical ones, which are the keys of
// topics. The client stays the caller's to close. Its producer is not used: the Publisher sends
// Produce requests of its own, so that the dispatcher sees the first answer and nothing is stored
// that was given up.
func New(client *kgo.Client, topics map[string]string) (dispatch.Publisher, error) {
	c, err := broker.Over(client)
	if err != nil {
		return nil, err
	}
	return c.NewPublisher(topics), nil
}
