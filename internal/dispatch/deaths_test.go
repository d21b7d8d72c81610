package dispatch

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// A row that kills the publisher that sends it dies of its attempts. Those who happen to
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
		var killed atomic.Bool
		b.broker.verdict = func(_ string, m Message) error {
			if m.EventID == killer.ID {
				killed.Store(true)
			}
			return nil
		}
		b.store.fail = func(string) error {
			if killed.Load() {
				return errors.New("the publisher is dead")
			}
			return nil
		}
		for range DefaultMaxAttempts {
			stop := start(t, b.another(t, nil))
			time.Sleep(2 * time.Second)
			stop()
			time.Sleep(DefaultLease)
			killed.Store(false)
		}
		start(t, b.another(t, nil))
		time.Sleep(3 * time.Minute)
		isDead := func(r memRow) bool { return r.dead == outbox.ReasonMaxAttempts }
		require.True(t, isDead(b.store.all()[0]))
		require.LessOrEqual(t, b.store.count(isDead), 500)
		require.Equal(t, 3000, b.store.count(isDead)+b.store.count(isPublished))
	})
}

func TestFlightIsNarrowWhilePublishersDie(t *testing.T) {
	const room, batch = 800, 10
	for name, c := range map[string]struct{ lost, of, most int }{
		"no publisher died":         {0, 20, room},
		"half of the attempts left": {10, 20, room},
		"less than half":            {11, 20, room / 2},
		"of its own attempts":       {5, 6, room / 4},
		"much less than half":       {13, 20, room / 8},
		"one batch is left":         {19, 20, batch},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, func(c *Config) { c.MaxInFlight, c.BatchSize = room, batch })
				for _, row := range b.store.add(1, "red") {
					row.AttemptCount, row.MaxAttempts = max(c.lost-1, 0), c.of
					if c.lost > 0 {
						b.store.leaseUntil(time.Now(), row)
					}
				}
				var latency atomic.Int64
				latency.Store(int64(5 * time.Second))
				b.broker.latency = func(string) time.Duration { return time.Duration(latency.Load()) }
				inFlight := func() int {
					b.store.add(room, "red")
					b.store.add(room, "blue")
					time.Sleep(time.Second)
					rows, _ := b.InFlight()
					return rows
				}
				start(t, b.Dispatcher)
				require.InDelta(t, c.most, inFlight(), float64(c.most)/4)

				latency.Store(0)
				time.Sleep(2*DefaultLease + 10*time.Second)
				require.Equal(t, 2*room+1, b.store.count(isPublished))

				latency.Store(int64(5 * time.Second))
				require.InDelta(t, room, inFlight(), room/4, "two leases after the last death")
			})
		})
	}
}
