// Package nats is the Publisher for NATS JetStream, on a connection of yours.
package nats

import (
	"github.com/nats-io/nats.go"

	"github.com/outboxctl/outboxctl/dispatch"
	broker "github.com/outboxctl/outboxctl/internal/broker/nats"
)

// New returns a Publisher to the subjects that stand for the logical topics, which are the keys of
// subjects. A stream must listen to each. The connection stays the caller's to close, and must have
// been opened with nats.ReconnectBufSize(-1): what it buffers while it is away would be stored
// after the dispatcher had given it up. Its error handler is called as before.
func New(conn *nats.Conn, subjects map[string]string) (dispatch.Publisher, error) {
	client, err := broker.Over(conn)
	if err != nil {
		return nil, err
	}
	return client.NewPublisher(subjects), nil
}
