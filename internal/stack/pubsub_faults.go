package stack

import (
	"context"
	"maps"
	"path"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// PublishCall is one Publish request as it arrived.
type PublishCall struct {
	// Number counts Publish requests from 1.
	Number   int
	Topic    string // full name, projects/P/topics/T
	Messages []*pubsubpb.PubsubMessage
}

// PublishFault says what goes wrong with a Publish request. The zero value lets it through. Errors should be made with
// status.Error, so that they carry a code.
type PublishFault struct {
	// Delay passes before anything else happens, or until the caller gives up: then nothing is stored.
	Delay time.Duration
	// Err is returned instead of storing anything.
	Err error
	// LostReply is returned after storing: the publisher believes in a failure that did not happen.
	LostReply error
}

// faults decides over every request before the fake sees it. The zero value lets all of them through.
type faults struct {
	mu        sync.Mutex
	calls     map[string]int
	onCall    func(ctx context.Context, method string) error
	onPublish func(ctx context.Context, call PublishCall) PublishFault
	reject    func(topic string, message *pubsubpb.PubsubMessage) bool
}

// OnCall installs a function that is asked before every request and stream; its error is the answer. Methods are named without
// their service: "Publish", "GetTopic", "StreamingPull". Nil removes it.
func (f *faults) OnCall(hook func(ctx context.Context, method string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onCall = hook
}

// OnPublish installs a function that decides over every Publish request. It runs in the goroutines of the requests. Nil removes
// it.
func (f *faults) OnPublish(hook func(ctx context.Context, call PublishCall) PublishFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onPublish = hook
}

// RejectMessages installs a predicate for messages the broker does not accept. As with the real one, a single such message fails
// its whole request with InvalidArgument and nothing of it is stored. Nil removes it.
func (f *faults) RejectMessages(reject func(topic string, message *pubsubpb.PubsubMessage) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reject = reject
}

// Calls returns how many requests and streams each method has seen, failed ones included.
func (f *faults) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// arrive counts a call and returns its number and the hooks that decide over it.
func (f *faults) arrive(fullMethod string) (method string, number int, hooks faultHooks) {
	method = path.Base(fullMethod)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = make(map[string]int)
	}
	f.calls[method]++
	return method, f.calls[method], faultHooks{call: f.onCall, publish: f.onPublish, reject: f.reject}
}

type faultHooks struct {
	call    func(ctx context.Context, method string) error
	publish func(ctx context.Context, call PublishCall) PublishFault
	reject  func(topic string, message *pubsubpb.PubsubMessage) bool
}

func (f *faults) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method, number, hooks := f.arrive(info.FullMethod)
	if hooks.call != nil {
		if err := hooks.call(ctx, method); err != nil {
			return nil, err
		}
	}
	publish, ok := req.(*pubsubpb.PublishRequest)
	if !ok {
		return handler(ctx, req)
	}
	var fault PublishFault
	if hooks.publish != nil {
		fault = hooks.publish(ctx, PublishCall{Number: number, Topic: publish.GetTopic(), Messages: publish.GetMessages()})
	}
	if fault.Delay > 0 && !sleep(ctx, fault.Delay) {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if fault.Err != nil {
		return nil, fault.Err
	}
	if hooks.reject != nil {
		for _, message := range publish.GetMessages() {
			if hooks.reject(publish.GetTopic(), message) {
				return nil, status.Error(codes.InvalidArgument, "the request holds a message that is not acceptable")
			}
		}
	}
	reply, err := handler(ctx, req)
	if err == nil && fault.LostReply != nil {
		return nil, fault.LostReply
	}
	return reply, err
}

func (f *faults) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	method, _, hooks := f.arrive(info.FullMethod)
	if hooks.call != nil {
		if err := hooks.call(stream.Context(), method); err != nil {
			return err
		}
	}
	return handler(srv, stream)
}
