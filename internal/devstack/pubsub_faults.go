package devstack

import (
	"context"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// PublishCall is one Publish request as it arrived.
type PublishCall struct {
	// Number counts Publish requests from 1.
	Number   int
	Topic    string // full name, projects/P/topics/T
	Messages []*pubsubpb.PubsubMessage
}

// PublishFault describes what goes wrong with a Publish request. The zero value lets it through.
// Errors should be made with status.Error, so that they carry a code.
type PublishFault struct {
	// Delay passes before anything else happens, or until the caller gives up: then nothing is stored.
	Delay time.Duration
	// Err is returned instead of storing anything.
	Err error
	// LostReply is returned after storing: the publisher believes in a failure that did not happen.
	LostReply error
}

// faults decides over every request before the fake sees it. The zero value lets all of them
// through.
type faults struct {
	mu    sync.Mutex
	calls map[string]int
	hooks hooks
}

type hooks struct {
	call    func(ctx context.Context, method string) error
	publish func(ctx context.Context, call PublishCall) PublishFault
	answer  func(answer PublishAnswer)
	reject  func(topic string, message *pubsubpb.PubsubMessage) bool
}

// PublishAnswer is what became of a Publish request.
type PublishAnswer struct {
	PublishCall
	// Stored are the ids of the messages that were stored, also when the reply said otherwise.
	Stored []string
	// Err is the reply; ReplyLost means that it denies what was stored.
	Err       error
	ReplyLost bool
}

// OnCall installs a function that is asked before every request and stream; its error is the
// answer. Methods are named without their service: "Publish", "GetTopic", "StreamingPull". Nil
// removes it.
func (f *faults) OnCall(hook func(ctx context.Context, method string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks.call = hook
}

// OnPublish installs a function that decides over every Publish request. It runs in the goroutines
// of the requests. Nil removes it.
func (f *faults) OnPublish(hook func(ctx context.Context, call PublishCall) PublishFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks.publish = hook
}

// OnAnswer installs a function that is told about every Publish request before its reply is sent.
// It runs in the goroutines of the requests. Nil removes it.
func (f *faults) OnAnswer(hook func(answer PublishAnswer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks.answer = hook
}

// RejectMessages installs a predicate for messages the broker does not accept. As with the real
// one, a single such message fails its whole request with InvalidArgument and nothing of it is
// stored. Nil removes it.
func (f *faults) RejectMessages(reject func(topic string, message *pubsubpb.PubsubMessage) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks.reject = reject
}

// Calls returns how many requests and streams each method has seen, failed ones included.
func (f *faults) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// arrive counts a call and returns its number and the hooks that decide over it.
func (f *faults) arrive(ctx context.Context, fullMethod string) (number int, h hooks, err error) {
	method := path.Base(fullMethod)
	f.mu.Lock()
	if f.calls == nil {
		f.calls = make(map[string]int)
	}
	f.calls[method]++
	number, h = f.calls[method], f.hooks
	f.mu.Unlock()
	if h.call != nil {
		err = h.call(ctx, method)
	}
	return number, h, err
}

func (f *faults) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	number, hooks, err := f.arrive(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	publish, ok := req.(*pubsubpb.PublishRequest)
	if !ok {
		return next(ctx, req)
	}
	call := PublishCall{Number: number, Topic: publish.GetTopic(), Messages: publish.GetMessages()}
	answer := hooks.decide(ctx, call, func() (any, error) { return next(ctx, req) })
	if hooks.answer != nil {
		hooks.answer(answer)
	}
	if answer.Err != nil {
		return nil, answer.Err
	}
	return &pubsubpb.PublishResponse{MessageIds: answer.Stored}, nil
}

// decide lets a Publish request through to the fake, or not.
func (h hooks) decide(
	ctx context.Context, call PublishCall, store func() (any, error),
) (answer PublishAnswer) {
	answer.PublishCall = call
	var fault PublishFault
	if h.publish != nil {
		fault = h.publish(ctx, call)
	}
	rejected := func(m *pubsubpb.PubsubMessage) bool {
		return h.reject != nil && h.reject(call.Topic, m)
	}
	switch {
	case fault.Delay > 0 && wait.For(ctx, fault.Delay) != nil:
		answer.Err = status.FromContextError(ctx.Err()).Err()
	case fault.Err != nil:
		answer.Err = fault.Err
	case twoKeys(call.Messages):
		answer.Err = status.Error(codes.FailedPrecondition,
			"the request holds messages of two ordering keys")
	case slices.ContainsFunc(call.Messages, rejected):
		answer.Err = status.Error(codes.InvalidArgument,
			"the request holds a message that is not acceptable")
	default:
		var reply any
		if reply, answer.Err = store(); answer.Err == nil {
			answer.Stored = reply.(*pubsubpb.PublishResponse).GetMessageIds()
			answer.Err, answer.ReplyLost = fault.LostReply, fault.LostReply != nil
		}
	}
	return answer
}

// twoKeys reports whether messages differ in their ordering key. The service refuses such a
// request, the fake would not.
func twoKeys(messages []*pubsubpb.PubsubMessage) bool {
	return slices.ContainsFunc(messages, func(m *pubsubpb.PubsubMessage) bool {
		return m.GetOrderingKey() != messages[0].GetOrderingKey()
	})
}

func (f *faults) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	if _, _, err := f.arrive(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}
