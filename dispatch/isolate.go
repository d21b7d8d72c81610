package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/outboxctl/outboxctl/internal/dispatch"
)

// errBehind is why a message is not sent that follows one which failed.
var errBehind = errors.New("an earlier message of its ordering key was not acknowledged")

// Unsent is the error of a message that was not sent: it costs no attempt.
func Unsent(err error) *Failure {
	return NewFailure(Retryable, dispatch.CodeUnsent, errors.Join(ErrUnsent, err))
}

// isolateParts is how many parts a refused request is cut into. Halves find a
// single culprit with the fewest requests; but a dozen culprits among a thousand
// messages leave no half without one, so everything is sent again and again, ten
// times one after the other. Eighths need three or four rounds, and send a
// message half as often.
const isolateParts = 8

// Isolate sends msgs and, where the broker refuses the request as a whole, cuts
// it into parts until the message to blame stands alone. send performs one
// request and returns one Result per message. A Refused result of a request with
// several messages proves nothing about any one of them. What is still refused
// alone comes back as Rejected when another part was accepted, and as Refused
// when none was: then the topic may be to blame.
//
// The parts are asked at the same time: one after the other, all of them would
// run out of time because of the few. When ctx ends first, what has no verdict
// of its own comes back as retryable, with ErrUnsent: no message is blamed for
// a lack of time.
func Isolate(
	ctx context.Context, msgs []Message, send func(context.Context, []Message) []Result,
) []Result {
	return Proven(isolate(ctx, msgs, send))
}

// Proven turns Refused into Rejected where the topic has accepted another message: a
// Publisher that does without Isolate and InOrder passes its results through it.
func Proven(results []Result) []Result {
	if !dispatch.AnyAccepted(results) {
		return results
	}
	for _, i := range dispatch.RefusedAt(results) {
		results[i].Err = NewFailure(Rejected, CodeOf(results[i].Err), results[i].Err)
	}
	return results
}

func isolate(
	ctx context.Context, msgs []Message, send func(context.Context, []Message) []Result,
) []Result {
	results := send(ctx, msgs)
	suspects := dispatch.RefusedAt(results)
	if len(msgs) < 2 || len(suspects) == 0 {
		return results
	}
	// One suspect among several may have been named by the broker itself, or
	// may only have been alone in its bundle. Asking again alone settles it.
	var wg sync.WaitGroup
	for suspects := range slices.Chunk(suspects, (len(suspects)+isolateParts-1)/isolateParts) {
		if err := ctx.Err(); err != nil {
			for _, i := range suspects {
				results[i] = Result{Err: Unsent(err)}
			}
			continue
		}
		part := make([]Message, len(suspects))
		for j, i := range suspects {
			part[j] = msgs[i]
		}
		wg.Go(func() {
			for j, r := range isolate(ctx, part, send) {
				results[suspects[j]] = r
			}
		})
	}
	wg.Wait()
	return results
}

// InOrder sends messages of one ordering key: one request after the other, each
// after the acknowledgement of the one before. The first failure ends it, and what
// follows comes back as unsent. A request that is refused as a whole is halved from
// the front, up to the message to blame. first returns how many of the messages
// that are left one request may hold.
func InOrder(
	ctx context.Context, msgs []Message, first func([]Message) int,
	send func(context.Context, []Message) []Result,
) []Result {
	results := make([]Result, 0, len(msgs))
	for size := len(msgs); len(results) < len(msgs); {
		left := msgs[len(results):]
		part := left[:min(size, first(left))]
		answers := send(ctx, part)
		if len(part) > 1 && len(dispatch.RefusedAt(answers)) > 0 && ctx.Err() == nil {
			size = (len(part) + 1) / 2
			continue
		}
		results = append(results, answers...)
		if failed := slices.IndexFunc(answers, func(r Result) bool { return r.Err != nil }); failed >= 0 {
			break
		}
	}
	for len(results) < len(msgs) {
		results = append(results, Result{Err: Unsent(errBehind)})
	}
	return Proven(results)
}
