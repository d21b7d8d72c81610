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

func (g *Guard) pause(ctx context.Context, outcome Outcome) {
	d := g.pauseFor(outcome)
	if d == 0 {
		return
	}
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (g *Guard) pauseFor(outcome Outcome) time.Duration {
	switch outcome {
	case InProgress:
		return inProgressPause
	case Unavailable:
		doublings := min(g.outage.Add(1)-1, 6)
		return min(outagePauseBase<<doublings, outagePauseMax)
	default:
		// A failed handler knows best how soon it may be tried again; leave the
		// pace to the subscription's retry policy.
		return 0
	}
}
