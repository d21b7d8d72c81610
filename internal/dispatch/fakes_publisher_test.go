package dispatch

import (
	"context"
	"errors"
	"slices"
)

// What publishers are made of stands in the public package dispatch, which imports this
// one. The brokers of these tests answer as publishers do.

// unsent is the failure of a message that was not sent.
func unsent(err error) *Failure { return NewFailure(Retryable, "unsent", errors.Join(ErrUnsent, err)) }

// proven turns Refused into Rejected where the topic has accepted another message.
func proven(results []Result) []Result {
	if !AnyAccepted(results) {
		return results
	}
	for _, i := range RefusedAt(results) {
		results[i].Err = NewFailure(Rejected, CodeOf(results[i].Err), results[i].Err)
	}
	return results
}

// inOrder sends messages of one ordering key: one request after the other, each
// after the acknowledgement of the one before. The first failure ends it, and what
// follows comes back as unsent. A request that is refused as a whole is halved from
// the front, up to the message to blame. first returns how many of the messages
// that are left one request may hold.
func inOrder(
	ctx context.Context, msgs []Message, first func([]Message) int,
	send func(context.Context, []Message) []Result,
) []Result {
	results := make([]Result, 0, len(msgs))
	for size := len(msgs); len(results) < len(msgs); {
		left := msgs[len(results):]
		part := left[:min(size, first(left))]
		answers := send(ctx, part)
		if len(part) > 1 && len(RefusedAt(answers)) > 0 && ctx.Err() == nil {
			size = (len(part) + 1) / 2
			continue
		}
		results = append(results, answers...)
		if failed := slices.IndexFunc(answers, func(r Result) bool { return r.Err != nil }); failed >= 0 {
			break
		}
	}
	for len(results) < len(msgs) {
		results = append(results, Result{Err: unsent(context.Canceled)})
	}
	return proven(results)
}
