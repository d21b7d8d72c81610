package consume

import (
	"context"
	"math/rand/v2"
	"time"
)

// A nack without a pause is a loop: most brokers deliver again at once. The
// pause holds one of the worker's slots, which is the point when Redis is away.
const (
	inProgressPause = 500 * time.Millisecond
	outagePauseBase = 100 * time.Millisecond
	outagePauseMax  = 5 * time.Second
)

// heldUntil is when an event that somebody holds now is free, unless they live.
func (g *Guard) heldUntil() time.Time { return time.Now().Add(g.opts.Lease + inProgressPause) }

// await waits for another delivery to finish, and says whether to ask again.
func (g *Guard) await(ctx context.Context, until time.Time) bool {
	return time.Now().Before(until) && wait(ctx, inProgressPause)
}

func (g *Guard) pause(ctx context.Context, outcome Outcome) {
	if d := g.pauseFor(outcome); d > 0 {
		wait(ctx, d)
	}
}

// wait waits for d or a part of it, and says whether ctx let it.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (g *Guard) pauseFor(outcome Outcome) time.Duration {
	switch outcome {
	case Unavailable:
		doublings := min(g.outage.Add(1)-1, 6)
		return min(outagePauseBase<<doublings, outagePauseMax)
	default:
		// A failed handler knows best how soon it may be tried again; leave the
		// pace to the subscription's retry policy.
		return 0
	}
}
