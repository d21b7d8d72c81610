package pubsub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// orderedRequests is how many requests of ordering keys may be under way at once to
// one topic. A key has one at most.
const orderedRequests = 64

// Publisher sends the dispatcher's batches to Pub/Sub, one RPC per request of up
// to MaxRequestMessages. The library's own publisher collects messages in the
// background behind a timer; the dispatcher has whole batches already, so going
// straight to the RPC is twice as fast and leaves nothing running behind it.
type Publisher struct {
	client *Client
	topics map[string]string
	// flows bounds each topic for itself: a topic that does not answer must not
	// take the room of the others, which would then time out with it. Requests of
	// ordering keys are small and many, and have room of their own.
	flows, orderedFlows map[string]*flow
}

var _ dispatch.Publisher = (*Publisher)(nil)

// NewPublisher publishes to the physical topics that stand for the logical ones.
func (c *Client) NewPublisher(topics map[string]string) dispatch.Publisher {
	p := &Publisher{client: c, topics: maps.Clone(topics), flows: make(map[string]*flow, len(topics)), orderedFlows: make(map[string]*flow, len(topics))}
	for _, physical := range topics {
		p.flows[c.topicPath(physical)] = newFlow(c.cfg.Concurrency, c.cfg.MaxOutstandingBytes)
		p.orderedFlows[c.topicPath(physical)] = newFlow(orderedRequests, c.cfg.MaxOutstandingBytes)
	}
	return p
}

// Limits implements [dispatch.Publisher].
func (p *Publisher) Limits(string) wire.Limits { return wire.PubSubLimits() }

// Publish implements [dispatch.Publisher]. It returns at the latest when the
// configured publish timeout has passed, counted over all its requests.
//
// A request that was cut off by ctx or by the timeout may still be stored: the
// cancellation races with the server. Its messages come back as Canceled or
// DeadlineExceeded and must be treated as perhaps published.
func (p *Publisher) Publish(ctx context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	msgs = traced(msgs)
	path, err := p.path(topic)
	return broker.Publish(ctx, p.client.cfg.PublishTimeout, len(msgs), err, func(ctx, begin context.Context) []dispatch.Result {
		if msgs[0].OrderingKey != "" {
			return p.publishInOrder(ctx, begin, path, msgs)
		}
		results := make([]dispatch.Result, len(msgs))
		var wg sync.WaitGroup
		for part := range requests(path, msgs) {
			wg.Go(func() {
				copy(results[part.from:part.to], p.request(ctx, begin, path, msgs[part.from:part.to], part.bytes))
			})
		}
		wg.Wait()
		return results
	})
}

// publishInOrder publishes messages of one ordering key, one request after the
// other: Pub/Sub keeps the order in which it has acknowledged them.
func (p *Publisher) publishInOrder(ctx, begin context.Context, path string, msgs []dispatch.Message) []dispatch.Result {
	first := func(left []dispatch.Message) int {
		for part := range requests(path, left) {
			return part.to
		}
		return 0
	}
	return dispatch.InOrder(ctx, msgs, first, func(ctx context.Context, msgs []dispatch.Message) []dispatch.Result {
		results := p.send(ctx, begin, p.orderedFlows[path], path, msgs)
		for i := range results {
			// One key takes 1 MB a second. What that stops is this key.
			if err := results[i].Err; err != nil && dispatch.CodeOf(err) == codes.ResourceExhausted.String() {
				results[i].Err = dispatch.NewFailure(dispatch.Retryable, dispatch.CodeOf(err), errors.Join(dispatch.ErrThrottled, err))
			}
		}
		return results
	})
}

// request publishes what fits one request, in several where the broker refused
// it because of one message. Each begins before the end of begin.
func (p *Publisher) request(ctx, begin context.Context, path string, msgs []dispatch.Message, size int) []dispatch.Result {
	if size > MaxRequestBytes {
		return broker.All(len(msgs), dispatch.NewFailure(dispatch.Rejected, codes.InvalidArgument.String(),
			fmt.Errorf("publish request of %d bytes exceeds %d", size, MaxRequestBytes)))
	}
	return dispatch.Isolate(ctx, msgs, func(ctx context.Context, msgs []dispatch.Message) []dispatch.Result {
		return p.send(ctx, begin, p.flows[path], path, msgs)
	})
}

// send is one RPC.
func (p *Publisher) send(ctx, begin context.Context, room *flow, path string, msgs []dispatch.Message) []dispatch.Result {
	release, err := room.acquire(begin, weight(msgs))
	if err != nil {
		return broker.All(len(msgs), dispatch.Unsent(err))
	}
	defer release()
	resp, err := p.client.pubsub.TopicAdminClient.Publish(ctx, publishRequest(path, msgs), once())
	if err != nil {
		return broker.All(len(msgs), failure(err))
	}
	ids := resp.GetMessageIds()
	if len(ids) != len(msgs) {
		// Which message an id belongs to is unknown. All of them are sent again:
		// none may be marked published that is not.
		return broker.All(len(msgs), dispatch.NewFailure(dispatch.Retryable, codes.Internal.String(),
			fmt.Errorf("broker acknowledged %d of %d messages", len(ids), len(msgs))))
	}
	results := make([]dispatch.Result, len(msgs))
	for i, id := range ids {
		results[i].MessageID = id
	}
	return results
}

// path resolves a logical topic. A name the broker would call an invalid argument
// is the topic's fault, not the messages'.
func (p *Publisher) path(topic string) (string, error) {
	physical, ok := p.topics[topic]
	if !ok {
		return "", misconfigured(codes.NotFound, fmt.Errorf("no Pub/Sub topic configured for %q", topic))
	}
	if err := ValidateName(broker.KindTopic, physical); err != nil {
		return "", misconfigured(codes.FailedPrecondition, err)
	}
	return p.client.topicPath(physical), nil
}

func weight(msgs []dispatch.Message) (n int64) {
	for _, m := range msgs {
		n += int64(m.Size())
	}
	return n
}

func publishRequest(path string, msgs []dispatch.Message) *pubsubpb.PublishRequest {
	// One allocation for all messages: at a thousand per request it shows.
	backing := make([]pubsubpb.PubsubMessage, len(msgs))
	list := make([]*pubsubpb.PubsubMessage, len(msgs))
	for i := range msgs {
		backing[i].Data = msgs[i].Data
		backing[i].Attributes = msgs[i].Attributes
		backing[i].OrderingKey = msgs[i].OrderingKey
		list[i] = &backing[i]
	}
	return &pubsubpb.PublishRequest{Topic: path, Messages: list}
}
