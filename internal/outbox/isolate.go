package outbox

import (
	"context"
	"errors"
	"sync"
)

// errUnjudged is the error of a message whose request was refused because of
// another one, and for which no time was left to ask again.
var errUnjudged = errors.New("refused together with another message, and no time was left to tell whose fault it was")

// Isolate sends msgs and, where the broker refuses the request as a whole,
// halves it until the message to blame stands alone. send performs one
// request and returns one Result per message. A Rejected result of a request
// with several messages proves nothing about any one of them; one with a
// single message does.
//
// The culprit of n messages costs about 2·log2(n) further requests. Both halves
// are asked at the same time: with a dozen culprits in a thousand messages, one
// after the other, all of them would run out of time because of the few. When
// ctx ends first, what has no verdict of its own comes back as retryable, with
// errUnjudged: nobody is blamed for running out of time.
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
	halves := [][]int{suspects}
	if len(suspects) > 1 {
		mid := len(suspects) / 2
		halves = [][]int{suspects[:mid], suspects[mid:]}
	}
	var wg sync.WaitGroup
	for _, half := range halves {
		if err := ctx.Err(); err != nil {
			for _, i := range half {
				results[i] = Result{Err: NewFailure(codeDeadlineExceeded, errors.Join(errUnjudged, err))}
			}
			continue
		}
		part := make([]Message, len(half))
		for j, i := range half {
			part[j] = msgs[i]
		}
		wg.Go(func() {
			for j, r := range Isolate(ctx, part, send) {
				results[half[j]] = r
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
