package pubsub

import (
	"context"

	"golang.org/x/sync/semaphore"
)

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
