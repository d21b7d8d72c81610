package operate

import (
	"time"

	"github.com/outboxctl/outboxctl/internal/stats"
)

// OutageSeconds is how long a topic has not been published to, at least a second: the publisher that tells has another
// clock than the database.
func OutageSeconds(at time.Time, t stats.TopicState) float64 {
	if t.Since.IsZero() {
		return 1
	}
	return max(at.Sub(t.Since).Seconds(), 1)
}
