package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxctl/outboxctl/dispatch"
)

// requestMessages is how many messages are on their way on one channel.
const requestMessages = 1000

// channel is one in confirm mode. It serves one call at a time.
type channel struct {
	*amqp.Channel
	// returns has room for a whole request: a return comes before its message's confirmation, and
	// blocks the connection until it is taken.
	returns chan amqp.Return
	closed  chan *amqp.Error
	left    bool // it is being closed
}

// take gives a channel that is not in use, or opens one.
func (l *link) take(ctx context.Context) (*channel, error) {
	for {
		select {
		case ch := <-l.free:
			if ch.IsClosed() {
				continue
			}
			return ch, nil
		default:
			return within(ctx, l.openChannel, l.give)
		}
	}
}

// within does what knows no context. A broker whose memory is full reads nothing and so does not
// answer: it is not waited for longer than ctx, and late gets what comes after that.
func within[T any](ctx context.Context, do func() (T, error), late func(T)) (got T, err error) {
	done := make(chan struct{})
	var result T
	var failed error
	go func() {
		defer close(done)
		result, failed = do()
	}()
	select {
	case <-done:
		return result, failed
	case <-ctx.Done():
	}
	go func() {
		if <-done; failed == nil {
			late(result)
		}
	}()
	return got, ctx.Err()
}

func (l *link) openChannel() (*channel, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return nil, err
	}
	c := &channel{
		Channel: ch, returns: ch.NotifyReturn(make(chan amqp.Return, requestMessages)),
		closed: ch.NotifyClose(make(chan *amqp.Error, 1)),
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	return c, nil
}

// give takes a channel back on which nothing is on its way.
func (l *link) give(c *channel) {
	if c.left || c.IsClosed() {
		return
	}
	select {
	case l.free <- c:
	default:
		c.leave()
	}
}

// leave closes the channel. Nobody waits for the broker's answer, which may not come before its
// memory has room.
func (c *channel) leave() {
	c.left = true
	go func() { _ = c.Close() }() // it ends with the connection at the latest
}

// publish sends messages and waits for the answer to each. What has no answer when ctx ends may be
// stored; the channel is closed then, so that no late answer is taken for another message's.
func (c *channel) publish(ctx context.Context, to target, msgs []dispatch.Message) []dispatch.Result {
	results := make([]dispatch.Result, len(msgs))
	waits := make([]*amqp.DeferredConfirmation, len(msgs))
	for i := range msgs {
		key := to.routingKey(&msgs[i])
		if len(key) > nameBytes {
			results[i].Err = dispatch.NewFailure(dispatch.Refused, codeRoutingKey, fmt.Errorf("its routing key has %d bytes, RabbitMQ takes %d", len(key), nameBytes))
			continue
		}
		var err error
		waits[i], err = c.PublishWithDeferredConfirmWithContext(ctx, to.exchange(), key, true, false, publishing(&msgs[i]))
		if err != nil {
			results[i].Err = c.why(err)
			break
		}
	}
	complete := true
	for i := range msgs {
		switch {
		case waits[i] != nil:
			results[i] = c.wait(ctx, waits[i], msgs[i].EventID)
		case results[i].Err == nil: // behind one that could not be sent, for the same reason
			results[i].Err = results[i-1].Err
		}
		complete = complete && (waits[i] == nil || results[i].Err == nil || dispatch.CodeOf(results[i].Err) == codeNack)
	}
	c.blameReturned(msgs, results)
	if !complete {
		c.leave()
	}
	return results
}

func (c *channel) wait(ctx context.Context, confirmed *amqp.DeferredConfirmation, id string) dispatch.Result {
	select {
	case <-confirmed.Done():
	case <-ctx.Done():
		if !confirmed.Acked() {
			return dispatch.Result{Err: failure(ctx.Err())}
		}
	}
	switch {
	case confirmed.Acked():
		return dispatch.Result{MessageID: id}
	case c.IsClosed(): // which the library tells as a refusal of all that was unconfirmed
		return dispatch.Result{Err: c.why(amqp.ErrClosed)}
	}
	return dispatch.Result{Err: failure(errNack)}
}

// blameReturned corrects the results of what was confirmed although no queue takes it.
func (c *channel) blameReturned(msgs []dispatch.Message, results []dispatch.Result) {
	for {
		select {
		case r, ok := <-c.returns:
			if !ok {
				return
			}
			for i := range msgs {
				if msgs[i].EventID == r.MessageId {
					results[i] = dispatch.Result{Err: dispatch.NewFailure(dispatch.Misconfigured, strconv.Itoa(int(r.ReplyCode)),
						errors.New("no queue takes it: "+r.ReplyText))}
				}
			}
		default:
			return
		}
	}
}

// why is the reason with which the channel was closed, or otherwise.
func (c *channel) why(otherwise error) error {
	if c.IsClosed() {
		if answer := <-c.closed; answer != nil {
			c.closed = closedBy(answer)
			return failure(answer)
		}
	}
	return failure(otherwise)
}

// closedBy gives the answer to those who ask once more.
func closedBy(answer *amqp.Error) chan *amqp.Error {
	c := make(chan *amqp.Error, 1)
	c <- answer
	return c
}
