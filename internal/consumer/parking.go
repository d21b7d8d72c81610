package consumer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// maxParked bounds the messages that wait for their nack without a slot of
// their own. Beyond it they wait in their slot, which slows receiving down.
const maxParked = 1_000

// parking delays nacks. Without a delay a broker hands a nacked message out
// again at once, and a message that cannot be handled yet becomes a busy loop.
type parking struct {
	count atomic.Int64
	wg    sync.WaitGroup
}

// nack nacks the message after d, or at once when ctx ends.
func (p *parking) nack(ctx context.Context, msg interface{ Nack() }, d time.Duration) {
	later := func() {
		defer p.count.Add(-1)
		_ = wait.For(ctx, d)
		msg.Nack()
	}
	if p.count.Add(1) > maxParked {
		later()
		return
	}
	p.wg.Go(later)
}

func (p *parking) wait() { p.wg.Wait() }

// pauseWhileHeld is for a message whose event another delivery holds. That one
// is usually about to finish. But when its worker was killed, the event stays
// taken for the rest of the lease, and every delivery in the meantime counts
// towards the dead-letter policy: so only the first comes back soon, and the
// next outlasts the lease.
func pauseWhileHeld(attempt int, lease time.Duration) time.Duration {
	if attempt <= 1 {
		return inProgressPause
	}
	return lease
}

// pauseFor doubles from base with each delivery that was counted, by the broker or by failures.
func pauseFor(base, limit time.Duration, attempt int) time.Duration {
	d := base
	for range max(attempt, 1) - 1 {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}
