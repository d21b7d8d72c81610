package wire

import "time"

// Backoff is a pause that doubles with each failed attempt, from Min to Max.
type Backoff struct{ Min, Max time.Duration }

// Pause returns the pause after that many failed attempts.
func (b Backoff) Pause(failed int) time.Duration {
	pause := b.Min
	for i := 1; i < failed && pause < b.Max; i++ {
		pause *= 2
	}
	// A Min near the largest duration would overflow to something negative.
	if pause > b.Max || pause <= 0 {
		return b.Max
	}
	return pause
}

// Jittered returns Pause less up to a half of it, by a random number in [0, 1): what failed together
// does not come back together.
func (b Backoff) Jittered(failed int, random float64) time.Duration {
	pause := b.Pause(failed)
	half := pause / 2
	return half + time.Duration(random*float64(pause-half))
}
