package cleanup

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// Batches grow while they are quick and shrink before they are long: a transaction that deletes for
// a second holds up replicas and vacuum for a second.
const (
	firstBatch  = 1000
	leastBatch  = 100
	mostBatch   = 10_000
	quickBatch  = 40 * time.Millisecond
	longBatch   = 90 * time.Millisecond
	replicaWait = 500 * time.Millisecond
)

// note counts a batch and chooses the size of the next.
func (r *run) note(b Batch, limit int) {
	r.result.Batches++
	r.result.Longest = max(r.result.Longest, b.Took)
	switch {
	case b.Took > longBatch:
		r.size = max(r.size/2, leastBatch)
	case b.Took < quickBatch && b.Deleted == int64(limit):
		r.size = min(r.size*2, mostBatch)
	}
	if r.OnBatch != nil {
		r.OnBatch(b)
	}
}

// rest waits as long as was asked for, and then until the replicas have caught up.
func (r *run) rest(ctx context.Context) error {
	if err := wait.For(ctx, r.Pause); err != nil {
		return err
	}
	for r.MaxReplicaLag > 0 {
		var lag time.Duration
		if err := r.pool.QueryRow(ctx, replicaLag).Scan(&lag); err != nil {
			return err
		}
		if lag <= r.MaxReplicaLag {
			return nil
		}
		if err := wait.For(ctx, replicaWait); err != nil {
			return err
		}
	}
	return nil
}
