package dispatch

import (
	"fmt"
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

// A claim that leaves out a crowded topic finds nothing in a backlog of that topic alone. It seldom walks over it: it has a hint of
// its own.
func TestABacklogOfACrowdedTopicIsSeldomWalkedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rows = 8_000
		b := newBundle(t, func(c *Config) { c.MaxInFlight = 1000 })
		b.broker.latency = func(string) time.Duration { return 100 * time.Millisecond }
		walks := 0
		b.store.walkCost = func(walked int) time.Duration {
			if walked > rows/4 {
				walks++
			}
			return time.Duration(walked) * 5 * time.Microsecond
		}
		b.store.add(rows, "red")
		start(t, b.Dispatcher)
		require.Eventually(t, func() bool { return b.store.count(isPublished) == rows }, time.Minute, 10*time.Millisecond)
		require.Less(t, walks, 15)
	})
}

// What comes due below the hint of claims around a crowded topic does not wait until the backlog of that topic is empty.
func TestARetryBehindTheBacklogOfACrowdedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.MaxInFlight = 200 })
		b.broker.latency = func(string) time.Duration { return 500 * time.Millisecond }
		b.store.walkCost = func(walked int) time.Duration { return time.Duration(walked) * 10 * time.Microsecond }
		b.store.add(4_000, "red")
		due := time.Now().Add(3 * time.Second)
		b.store.add(1, "blue")[0].next = due
		start(t, b.Dispatcher)
		blue := func(r memRow) bool { return isPublished(r) && r.EventType == "blue" }
		require.Eventually(t, func() bool { return b.store.count(blue) == 1 }, time.Minute, 10*time.Millisecond)
		require.Less(t, time.Since(due), 3*time.Second)
		require.Less(t, b.store.count(isPublished), 3_000, "the backlog is not empty")
	})
}

// An event many steps behind the backlog of a crowded topic does not wait for that topic, in a run that ends by itself neither.
func TestAnEventFarBehindACrowdedTopic(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("once %t", once), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, func(c *Config) { c.MaxInFlight, c.Workers, c.Once = 200, 1, once })
				b.broker.latency = func(topic string) time.Duration {
					if topic == "reds" {
						return time.Minute
					}
					return time.Millisecond
				}
				b.store.add(16*detourStep, "red")
				b.store.add(1, "blue")
				start(t, b.Dispatcher)
				blue := func(r memRow) bool { return isPublished(r) && r.EventType == "blue" }
				require.Eventually(t, func() bool { return b.store.count(blue) == 1 }, 4*pollMin, time.Millisecond,
					"each step follows the one before at once, and no sweep found it")
			})
		})
	}
}

// A look around a crowded topic that is one step is followed by the next at once.
func TestALookGoesInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.MaxInFlight = 200 })
		b.abandon, b.plainStream.cursor.low = t.Context(), 1
		b.store.add(4*detourStep, "red")
		b.inFlight.byTopic["reds"] = room{rows: 200}
		for _, further := range []bool{true, true, false} {
			require.Equal(t, turnResult{further: further}, b.plainStream.turn(t.Context(), true))
		}
	})
}
