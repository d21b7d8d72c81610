package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// NewPublisher publishes to the subjects that stand for logical topics, one message at a time, and
// waits for the acknowledgement of the stream that has stored each.
func (c *Client) NewPublisher(topics map[string]string) dispatch.Publisher {
	return broker.Publisher{
		Topics: maps.Clone(topics), Noun: "subject", CheckName: CheckName, Missing: codeMissing,
		Invalid: codeSubject, Timeout: c.cfg.PublishTimeout, Send: c.publish, Ask: c.ask,
		Failure: failure, Takes: func(string) wire.Limits { return c.limits() },
	}
}

func (c *Client) publish(
	ctx, begin context.Context, subject string, msgs []dispatch.Message,
) []dispatch.Result {
	l, err := c.conn.Get(ctx)
	if err != nil {
		return broker.All(len(msgs), broker.Unsent(failure(err)))
	}
	b := batch{client: c, link: l, subject: subject, begin: begin}
	if msgs[0].OrderingKey == "" {
		// Each message has an answer of its own, so none has to be isolated.
		return dispatch.Proven(b.send(ctx, msgs))
	}
	return dispatch.InOrder(ctx, msgs, func([]dispatch.Message) int { return 1 }, b.send)
}

// batch is one Publish.
type batch struct {
	client  *Client
	link    *link
	subject string
	begin   context.Context // messages are sent until it ends
}

// send sends msgs and waits for the answer to each.
func (b *batch) send(ctx context.Context, msgs []dispatch.Message) []dispatch.Result {
	denied, done := b.client.denied.wait(b.subject)
	defer done()
	results := make([]dispatch.Result, len(msgs))
	acks := make([]jetstream.PubAckFuture, len(msgs))
	for i := range msgs {
		acks[i], results[i].Err = b.offer(&msgs[i])
	}
	for i, ack := range acks {
		if ack == nil {
			continue
		}
		select {
		case stored := <-ack.Ok():
			results[i].MessageID = messageID(stored)
		case err := <-ack.Err():
			results[i].Err = failure(b.link.why(err))
		case <-denied.c:
			results[i] = afterAll(ack, failure(denied.err))
		case <-ctx.Done():
			results[i] = afterAll(ack, failure(ctx.Err()))
		}
	}
	return results
}

// offer hands one message to the connection.
func (b *batch) offer(m *dispatch.Message) (jetstream.PubAckFuture, error) {
	if err := b.begin.Err(); err != nil {
		return nil, dispatch.Unsent(err)
	}
	msg, err := b.client.message(b.subject, m)
	if err != nil {
		return nil, dispatch.NewFailure(dispatch.Refused, codeHeader, err)
	}
	ack, err := b.link.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
	switch {
	case err == nil:
		return ack, nil
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return nil, dispatch.Unsent(err)
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, nats.ErrBadSubject):
		return nil, failure(err)
	default:
		return nil, broker.Unsent(failure(b.link.why(err)))
	}
}

// why replaces what the library says while it has no connection by why it has none.
func (l *link) why(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrConnectionClosed) {
		return l.away()
	}
	return err
}

// away is why there is no connection.
func (l *link) away() error {
	if last := l.conn.LastError(); last != nil {
		return fmt.Errorf("the connection is away: %w", last)
	}
	return errors.New("the connection is away")
}

// afterAll is the answer that has arrived at the last moment, or otherwise.
func afterAll(ack jetstream.PubAckFuture, otherwise error) dispatch.Result {
	select {
	case stored := <-ack.Ok():
		return dispatch.Result{MessageID: messageID(stored)}
	case err := <-ack.Err():
		return dispatch.Result{Err: failure(err)}
	default:
		return dispatch.Result{Err: otherwise}
	}
}

func messageID(ack *jetstream.PubAck) string {
	return ack.Stream + "/" + strconv.FormatUint(ack.Sequence, 10)
}

// ask asks which stream takes a subject. An account that may publish and not ask is a good one;
// whether its events are taken is seen by the first.
func (c *Client) ask(ctx context.Context, subject string) error {
	if _, err := c.streamOf(ctx, subject); !errors.Is(err, errMayNotAsk) {
		return err
	}
	return nil
}

// limits are the server's: its max_payload counts headers and body. Before it has told its own,
// that of the most generous one holds.
func (c *Client) limits() wire.Limits {
	payload := largestPayload
	if l, ok := c.conn.Now(); ok && l.conn.MaxPayload() > 0 {
		payload = int(l.conn.MaxPayload())
	}
	return limits(payload)
}
