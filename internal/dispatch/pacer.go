package dispatch

import (
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	// pollMin is the wait after a claim that found something: long enough to
	// gather a few rows, short enough not to be felt.
	pollMin = 4 * time.Millisecond
	// troubleMin and troubleMax bound the wait after a claim that failed. The
	// upper bound keeps the restart of a database from costing more than the
	// restart itself.
	troubleMin = 50 * time.Millisecond
	troubleMax = time.Second
)

// pacer decides how long to wait between claims: not at all while there is
// more, briefly after activity, ever longer up to the poll interval without.
type pacer struct {
	poll   time.Duration
	random func() float64
	wait   time.Duration
	empty  int // claims in a row that found nothing, counted from pollMin
	failed int // claims in a row
}

func (p *pacer) next(r turnResult) time.Duration {
	if r.err != nil {
		p.failed++
		return p.jitter(wire.Backoff{Min: troubleMin, Max: troubleMax}.Pause(p.failed))
	}
	p.failed = 0
	switch {
	case r.more || r.further:
		p.empty, p.wait = 0, 0
	case r.rows > 0:
		p.empty, p.wait = 1, min(pollMin, p.poll)
	default:
		p.empty++
		p.wait = wire.Backoff{Min: pollMin, Max: p.poll}.Pause(p.empty)
	}
	if p.wait >= p.poll {
		return p.jitter(p.poll)
	}
	return p.wait
}

// idle reports whether the wait has reached the poll interval.
func (p *pacer) idle() bool { return p.failed == 0 && p.wait >= p.poll }

// gaveUp reports whether claims have failed until the longest wait.
func (p *pacer) gaveUp() bool {
	return wire.Backoff{Min: troubleMin, Max: troubleMax}.Pause(p.failed) >= troubleMax
}

// jitter shortens d by up to a tenth, so that publishers started together do
// not poll together, and none polls later than it was told to.
func (p *pacer) jitter(d time.Duration) time.Duration {
	return d - time.Duration(p.random()*float64(d)/10)
}
