package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrUnsent is in the error of a message that was not stored for certain, and
// for no fault of its own: the time was over before its turn to be sent came, or
// to be sent again without the neighbour it was refused with.
var ErrUnsent = errors.New("not sent: no time was left")

// Unsent is the failure of such a message.
func Unsent(err error) *Failure {
	return NewFailure(codeDeadlineExceeded, errors.Join(ErrUnsent, err))
}

// isolateParts is how many parts a refused request is cut into. Halves find a
// single culprit with the fewest requests; but a dozen culprits among a thousand
// messages leave no half without one, so everything is sent again and again, ten
// times one after the other. Eighths need three or four rounds, and send a
// message half as often.
const isolateParts = 8

// Isolate sends msgs and, where the broker refuses the request as a whole, cuts
// it into parts until the message to blame stands alone. send performs one
// request and returns one Result per message. A Rejected result of a request
// with several messages proves nothing about any one of them; one with a
// single message does.
//
// The parts are asked at the same time: one after the other, all of them would
// run out of time because of the few. When ctx ends first, what has no verdict
// of its own comes back as retryable, with ErrUnsent: no message is blamed for
// a lack of time.
func Isolate(ctx context.Context, msgs []Message, send func(context.Context, []Message) []Result) []Result {
	results := send(ctx, msgs)
	if len(msgs) < 2 || !anyRejected(results) {
		return results
	}
	suspects := make([]int, 0, len(msgs))
	for i, r := range results {
		if r.Err != nil && ClassOf(r.Err) == Rejected {
			suspects = append(suspects, i)
		}
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
			for j, r := range Isolate(ctx, part, send) {
				results[suspects[j]] = r
			}
		})
	}
	wg.Wait()
	return results
}

func anyRejected(results []Result) bool {
	for _, r := range results {
		if r.Err != nil && ClassOf(r.Err) == Rejected {
			return true
		}
	}
	return false
}
