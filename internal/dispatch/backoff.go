package dispatch

import "time"

// Backoff is the wait between attempts on one row.
type Backoff struct {
	Base, Max time.Duration
}

// Delay is min(Base·2^(attempts-1), Max), then a uniform draw from its upper
// half. attempts counts the failure just seen; random is in [0, 1). The draw
// is per row, so rows that failed together do not come back together.
func (b Backoff) Delay(attempts int, random float64) time.Duration {
	delay := b.Base
	for i := 1; i < attempts && delay < b.Max; i++ {
		delay *= 2
	}
	// A Base near the largest duration would overflow to something negative.
	if delay > b.Max || delay <= 0 {
		delay = b.Max
	}
	half := delay / 2
	return half + time.Duration(random*float64(delay-half))
}
