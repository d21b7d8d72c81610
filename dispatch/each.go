package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// The codes of a function's failures. They are metric labels.
const (
	codeFailed   = "failed"
	codePanic    = "panic"
	codeNoAnswer = "no_answer"
)

// Func publishes one message: nil acknowledges it.
type Func func(ctx context.Context, topic string, m Message) error

// PanicError is the panic of a Func, turned into an error so that one event
// does not take the process with it.
type PanicError struct {
	Value any
	stack []byte
}

// Stack is where it panicked. The log shows it.
func (e *PanicError) Stack() []byte { return e.stack }

func (e *PanicError) Error() string { return fmt.Sprintf("publishing panicked: %v", e.Value) }

// Each makes a Publisher of a function that is called for each message, at most
// parallel times at once. The messages of one ordering key are handed over one
// after the other.
//
// An error is repeated with backoff, until the event's attempts are used up; see
// Reject and Pause for others. A message that was not handed over before three
// quarters of the time were over is unsent and loses no attempt. A function that
// does not return when its context ends is not waited for: its message counts as
// failed, and its place stays taken until it returns.
func Each(f Func, parallel int) Publisher { return EachWithin(f, parallel, 0) }

// EachWithin is Each for a function that may take that long: its context ends then, and it is
// called only while so much time is left. Tuning.PublishTimeout should be twice as long.
func EachWithin(f Func, parallel int, takes time.Duration) Publisher {
	return each{f: f, slots: make(chan struct{}, max(1, parallel)), takes: takes}
}

type each struct {
	f     Func
	slots chan struct{}
	takes time.Duration // 0: a quarter of the time that there is
}

// Publish implements Publisher.
func (e each) Publish(ctx context.Context, topic string, msgs []Message) []Result {
	begin, stop := ctx, func() {}
	if end, limited := ctx.Deadline(); limited {
		begin, stop = context.WithDeadline(ctx, end.Add(-cmp.Or(e.takes, time.Until(end)/4)))
	}
	defer stop()
	if len(msgs) > 0 && msgs[0].OrderingKey != "" {
		return InOrder(ctx, msgs, func([]Message) int { return 1 }, func(ctx context.Context, msgs []Message) []Result {
			return []Result{answer(ctx, e.hand(ctx, begin, topic, msgs[0]))}
		})
	}
	answers := make([]<-chan Result, len(msgs))
	for i, m := range msgs {
		answers[i] = e.hand(ctx, begin, topic, m)
	}
	results := make([]Result, len(msgs))
	for i := range results {
		results[i] = answer(ctx, answers[i])
	}
	return Proven(results)
}

// hand starts one call as soon as there is room, and returns where its answer comes.
func (e each) hand(ctx, begin context.Context, topic string, m Message) <-chan Result {
	result := make(chan Result, 1)
	if err := begin.Err(); err != nil { // there may be room, but it is too late
		result <- Result{Err: Unsent(err)}
		return result
	}
	select {
	case e.slots <- struct{}{}:
	case <-begin.Done():
		result <- Result{Err: Unsent(begin.Err())}
		return result
	}
	go func() {
		defer func() { <-e.slots }()
		result <- e.call(ctx, topic, m)
	}()
	return result
}

func (e each) call(ctx context.Context, topic string, m Message) (result Result) {
	defer func() {
		if v := recover(); v != nil {
			result = Result{Err: NewFailure(Retryable, codePanic, Answered(&PanicError{Value: v, stack: debug.Stack()}))}
		}
	}()
	if e.takes > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, e.takes)
		defer end()
	}
	err := e.f(ctx, topic, m)
	switch {
	case err == nil:
		return Result{MessageID: m.EventID}
	case CodeOf(err) != codeUnknown:
	case ctx.Err() != nil:
		err = NewFailure(Retryable, codeNoAnswer, err)
	default:
		err = NewFailure(Retryable, codeFailed, Answered(err))
	}
	return Result{Err: err}
}

// answer waits for a call. One that came is taken, even when the time is over.
func answer(ctx context.Context, result <-chan Result) Result {
	select {
	case r := <-result:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-result:
		return r
	default:
		return Result{Err: NewFailure(Retryable, codeNoAnswer, ctx.Err())}
	}
}

// Limits implements Publisher: a function takes what memory takes.
func (each) Limits(string) wire.Limits {
	return wire.Limits{MessageBytes: 64 << 20, Attributes: 1000, AttributeNameBytes: 1 << 10, AttributeValueBytes: 16 << 10}
}

// Ready implements Publisher. Whether a function takes messages is known when it is called.
func (each) Ready(context.Context, string) error { return nil }
