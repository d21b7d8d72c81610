package pubsub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"sync"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/sync/semaphore"
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
	broker.Publisher
	client *Client
	// flows bounds each topic for itself: a topic that does not answer must not
	// take the room of the others, which would then time out with it. Requests of
	// ordering keys are small and many, and have room of their own.
	flows, orderedFlows map[string]*flow
}

// NewPublisher publishes to the physical topics that stand for the logical ones.
func (c *Client) NewPublisher(topics map[string]string) dispatch.Publisher {
	p := &Publisher{client: c, flows: map[string]*flow{}, orderedFlows: map[string]*flow{}}
	// A name the broker would call an invalid argument is the topic's fault, not the messages'.
	p.Publisher = broker.Publisher{
		Topics: maps.Clone(topics), Noun: "Pub/Sub topic", CheckName: ValidateName,
		Missing: codes.NotFound.String(), Invalid: codes.FailedPrecondition.String(),
		Timeout: c.cfg.PublishTimeout, Send: p.publish, Ask: c.ask, Failure: failure,
		Takes: func(string) wire.Limits { return wire.PubSubLimits() },
	}
	for _, physical := range topics {
		p.flows[c.topicPath(physical)] = newFlow(c.cfg.Concurrency, c.cfg.MaxOutstandingBytes)
		p.orderedFlows[c.topicPath(physical)] = newFlow(orderedRequests, c.cfg.MaxOutstandingBytes)
	}
	return p
}

// publish returns at the latest when ctx ends, counted over all its requests.
//
// A request that was cut off may still be stored: the cancellation races with the
// server. Its messages come back as Canceled or DeadlineExceeded and must be
// treated as perhaps published.
func (p *Publisher) publish(
	ctx, begin context.Context, topic string, msgs []dispatch.Message,
) []dispatch.Result {
	msgs, path := traced(msgs), p.client.topicPath(topic)
	if msgs[0].OrderingKey != "" {
		return p.publishInOrder(ctx, begin, path, msgs)
	}
	results := make([]dispatch.Result, len(msgs))
	var wg sync.WaitGroup
	for part := range requests(path, msgs) {
		wg.Go(func() {
			some := msgs[part.from:part.to]
			copy(results[part.from:], p.request(ctx, begin, path, some, part.bytes))
		})
	}
	wg.Wait()
	return results
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

// What one publish request may hold.
const (
	// MaxRequestMessages is Pub/Sub's limit.
	MaxRequestMessages = 1000
	// MaxRequestBytes is Pub/Sub's limit for the encoded request, the topic's
	// name and all framing included.
	MaxRequestBytes = wire.PubSubRequestBytes
	// preferredRequestBytes is where a request with several messages ends: a
	// lost connection repeats less, and several requests overlap. A larger
	// message travels alone.
	preferredRequestBytes = 3 << 20
)

// span is msgs[from:to] of one request, and its encoded size.
type span struct {
	from, to int
	bytes    int
}

// requests cuts msgs into as few requests as the limits allow, in order.
func requests(path string, msgs []dispatch.Message) iter.Seq[span] {
	return func(yield func(span) bool) {
		base := fieldSize(len(path))
		part := span{bytes: base}
		for i, m := range msgs {
			size := fieldSize(wire.MessageBytes(len(m.Data), m.Attributes) + orderingKeySize(m.OrderingKey))
			full := part.to-part.from == MaxRequestMessages || part.bytes+size > preferredRequestBytes
			if full && part.to > part.from {
				if !yield(part) {
					return
				}
				part = span{from: i, bytes: base}
			}
			part.to = i + 1
			part.bytes += size
		}
		if part.to > part.from {
			yield(part)
		}
	}
}

func orderingKeySize(key string) int {
	if key == "" {
		return 0
	}
	return fieldSize(len(key))
}

// fieldSize is a length-delimited field: one byte of tag, the length, the content.
func fieldSize(n int) int {
	return 1 + (bits.Len(uint(n)|1)+6)/7 + n
}

// flow blocks when too many requests or bytes wait for an answer. Without it a
// slow broker turns a backlog into memory.
type flow struct {
	requests *semaphore.Weighted
	bytes    *semaphore.Weighted
	maxBytes int64
}

func newFlow(requests int, maxBytes int64) *flow {
	return &flow{
		requests: semaphore.NewWeighted(int64(requests)),
		bytes:    semaphore.NewWeighted(maxBytes),
		maxBytes: maxBytes,
	}
}

// acquire waits for room and returns the function that gives it back.
func (f *flow) acquire(ctx context.Context, size int64) (release func(), err error) {
	// One request larger than the limit must still pass, alone.
	size = min(size, f.maxBytes)
	if err := ctx.Err(); err != nil {
		return nil, err // there may be room, but it is too late
	}
	if err := f.requests.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := f.bytes.Acquire(ctx, size); err != nil {
		f.requests.Release(1)
		return nil, err
	}
	return func() {
		f.bytes.Release(size)
		f.requests.Release(1)
	}, nil
}

const publishPermission = "pubsub.topics.publish"

// ask is one lookup that stores nothing.
//
// Looking a topic up needs a permission that the role roles/pubsub.publisher does
// not have. An account that may publish and nothing else is the usual and the
// right one, so a refused lookup asks what the account may do instead: that
// question needs no permission at all.
func (c *Client) ask(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	admin, path := c.pubsub.TopicAdminClient, c.topicPath(topic)
	_, err := admin.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: path}, once())
	if codeOf(err) != codes.PermissionDenied {
		return err
	}
	allowed, testErr := admin.TestIamPermissions(ctx, &iampb.TestIamPermissionsRequest{
		Resource:    path,
		Permissions: []string{publishPermission},
	}, once())
	switch {
	case testErr != nil && codeOf(testErr) != codes.Unimplemented:
		return testErr
	case testErr == nil && slices.Contains(allowed.GetPermissions(), publishPermission):
		return nil
	}
	return fmt.Errorf("publish to %s is not permitted: %w", path, err)
}

// clientTrace is the attribute in which Google's clients look for the trace of a message. Events
// cannot have it.
const clientTrace = "googclient_traceparent"

var aTrace = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traced gives messages that carry a trace the attribute of Google's clients too, where there is
// room for it.
func traced(msgs []dispatch.Message) []dispatch.Message {
	limits, all := wire.PubSubLimits(), msgs
	for i, m := range msgs {
		trace := m.Attributes["traceparent"]
		if !aTrace.MatchString(trace) || len(m.Attributes) >= limits.Attributes || limits.CheckSize(m.Size()+len(clientTrace)+len(trace)) != nil {
			continue
		}
		if &all[0] == &msgs[0] {
			all = slices.Clone(msgs)
		}
		all[i].Attributes = maps.Clone(m.Attributes)
		all[i].Attributes[clientTrace] = trace
	}
	return all
}
