package consumer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxParked bounds the messages that wait for their nack without a slot of
// their own. Beyond it they wait in their slot, which slows receiving down.
const maxParked = 1_000

// parking delays nacks. Without a delay a broker hands a nacked message out
// again at once, and a message that nobody can handle yet becomes a busy loop.
type parking struct {
	count atomic.Int64
	wg    sync.WaitGroup
}

// nack nacks the message after d, or at once when ctx ends.
func (p *parking) nack(ctx context.Context, msg interface{ Nack() }, d time.Duration) {
	if p.count.Add(1) > maxParked {
		defer p.count.Add(-1)
		nackAfter(ctx, msg, d)
		return
	}
	p.wg.Go(func() {
		defer p.count.Add(-1)
		nackAfter(ctx, msg, d)
	})
}

func (p *parking) wait() { p.wg.Wait() }

func nackAfter(ctx context.Context, msg interface{ Nack() }, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	msg.Nack()
}

// pauseFor doubles from base with each delivery the broker has counted.
func pauseFor(base, limit time.Duration, attempt int) time.Duration {
	d := base
	for range max(attempt, 1) - 1 {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}
