package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A topic that holds half of what may be in flight is passed over. When it has
// room again its rows lie below the hint, and claims must go back for them.
func TestClaimsGoBackForATopicThatWasCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.MaxInFlight = 1000 })
		slowHead(b, 5000, 600*time.Millisecond) // sweeps are rare
		b.broker.latency = func(topic string) time.Duration {
			if topic == "reds" {
				return time.Second
			}
			return time.Millisecond
		}
		b.store.add(5000, "red")
		start(t, b.Dispatcher)
		began := time.Now()
		reds := func(r memRow) bool { return isPublished(r) && r.EventType == "red" }
		for range 20 * 20 {
			b.store.add(5, "blue") // moves the hint past the reds
			time.Sleep(50 * time.Millisecond)
		}
		require.Equal(t, 5000, b.store.count(reds), "after %v", time.Since(began))
	})
}
