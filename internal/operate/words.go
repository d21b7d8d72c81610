package operate

import (
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/internal/stats"
)

// Count writes a number with its digits grouped.
func Count(n int64) string { return humanize.Comma(n) }

// Counted writes a number of things.
func Counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(n) + " " + noun + "s"
}

// Seconds writes a length of time as people say it: 850ms, 42s, 3m20s, 5h10m.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}

// OutageSeconds is how long a topic has not been published to, at least a second: the publisher that tells has another
// clock than the database.
func OutageSeconds(at time.Time, t stats.TopicState) float64 {
	if t.Since.IsZero() {
		return 1
	}
	return max(at.Sub(t.Since).Seconds(), 1)
}
