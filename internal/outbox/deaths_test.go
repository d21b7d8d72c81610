package outbox

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A row that kills whoever sends it dies of its attempts. Those who happen to
// be in flight with it must not die in thousands.
func TestRowThatKillsItsPublishersTakesFewWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		killer := b.store.add(1, "blue")[0]
		b.store.add(2999, "red")
		b.broker.latency = func(topic string) time.Duration {
			if topic == "blues" {
				return 10 * time.Millisecond
			}
			return time.Second
		}
		killed := false
		b.broker.verdict = func(_ string, m Message) error {
			if m.EventID == killer.ID {
				b.store.mu.Lock()
				defer b.store.mu.Unlock()
				killed = true
			}
			return nil
		}
		b.store.fail = func(string) error {
			if killed {
				return errors.New("the publisher is dead")
			}
			return nil
		}
		for range DefaultMaxAttempts {
			stop := start(t, b.another(t, nil))
			time.Sleep(2 * time.Second)
			stop()
			time.Sleep(DefaultLease)
			killed = false
		}
		start(t, b.another(t, nil))
		time.Sleep(3 * time.Minute)
		isDead := func(r memRow) bool { return r.dead == ReasonMaxAttempts }
		require.True(t, isDead(b.store.all()[0]))
		require.LessOrEqual(t, b.store.count(isDead), 2*DefaultBatchSize)
		require.Equal(t, 3000, b.store.count(isDead)+b.store.count(isPublished))
	})
}

func TestFlightIsNarrowWhilePublishersDie(t *testing.T) {
	const room, batch = 800, 10
	for name, c := range map[string]struct{ attempts, most int }{
		"nobody died":       {0, room},
		"a first death":     {1, room / 2},
		"three deaths":      {3, room / 8},
		"one batch is left": {9, batch},
		"too many deaths":   {40, batch},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, func(c *Config) { c.MaxInFlight, c.BatchSize, c.MaxAttempts = room, batch, 100 })
				for _, row := range b.store.add(1, "red") {
					row.AttemptCount = max(c.attempts-1, 0)
					row.locked, row.Until = c.attempts > 0, time.Now()
				}
				latency := 5 * time.Second
				b.broker.latency = func(string) time.Duration { return latency }
				inFlight := func() int {
					b.store.add(room, "red")
					b.store.add(room, "blue")
					time.Sleep(time.Second)
					rows, _ := b.InFlight()
					return rows
				}
				start(t, b.Dispatcher)
				require.InDelta(t, c.most, inFlight(), float64(c.most)/4)

				latency = 0
				time.Sleep(DefaultLease + 10*time.Second)
				require.Equal(t, 2*room+1, b.store.count(isPublished))

				latency = 5 * time.Second
				require.InDelta(t, room, inFlight(), room/4, "a lease after the last death")
			})
		})
	}
}
