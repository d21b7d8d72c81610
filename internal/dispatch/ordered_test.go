package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func idsOfRows(rows []*memRow) []string {
	return column(rows, func(r *memRow) string { return r.ID })
}

func (b *memBroker) sent() (requests [][]string, arrived []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sendings), slices.Clone(b.arrived)
}

func refusal(code string) error { return NewFailure(Refused, code, errors.New("no")) }

func TestRunsOfAKeyArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.BatchSize = 40 })
		b.broker.latency = func(topic string) time.Duration {
			return map[string]time.Duration{"reds": 80 * time.Millisecond, "blues": 20 * time.Millisecond}[topic]
		}
		b.broker.verdict = func(topic string, m Message) error {
			if topic != m.Attributes[wire.AttrEventType]+"s" {
				return refusal("of another topic")
			}
			return nil
		}
		var rows []*memRow
		for range 10 {
			rows = append(rows, b.store.addOrdered(7, "a", "red")...)
			rows = append(rows, b.store.addOrdered(7, "a", "blue")...)
			b.store.addOrdered(3, "b", "red")
			b.store.add(5, "red")
		}
		stop := start(t, b.Dispatcher)
		time.Sleep(20 * time.Second)
		stop()
		require.Equal(t, len(b.store.all()), b.store.count(isPublished))
		requests, arrived := b.broker.sent()
		want := idsOfRows(rows)
		require.Equal(t, want, slices.DeleteFunc(arrived, func(id string) bool { return !slices.Contains(want, id) }))
		for _, r := range requests {
			require.LessOrEqual(t, len(r), maxBatch/4, "a quarter of a claim is one key's")
		}
		require.Equal(t, "a", b.broker.messages[rows[0].ID].OrderingKey)
	})
}

func TestFirstFailureEndsARun(t *testing.T) {
	for name, tc := range map[string]struct {
		class    Class
		fails    int
		attempts int
	}{
		"the head":        {Retryable, 0, 1},
		"in the middle":   {Refused, 3, 1},
		"not its own":     {Misconfigured, 0, 0},
		"the second half": {Refused, 5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, func(c *Config) { c.BatchSize = 100 })
				rows := b.store.addOrdered(8, "a", "red")
				failing := rows[tc.fails].ID
				b.broker.verdict = func(_ string, m Message) error {
					if m.EventID == failing {
						return NewFailure(tc.class, "no", errors.New("no"))
					}
					return nil
				}
				b.broker.ready = func(string) error { return NewFailure(Misconfigured, "no", errors.New("no")) }
				stop := start(t, b.Dispatcher)
				time.Sleep(100 * time.Millisecond)
				stop()
				_, arrived := b.broker.sent()
				require.Equal(t, idsOfRows(rows[:tc.fails]), append([]string{}, arrived...), "nothing behind it is sent")
				for i, r := range b.store.all() {
					require.Equal(t, i < tc.fails, isPublished(r), i)
					if i == tc.fails && tc.class == Refused {
						require.Equal(t, outbox.ReasonRejectedByBroker, r.dead, "those before it prove that it is to blame")
						continue
					}
					require.Empty(t, r.dead, i)
					require.False(t, r.leased(), i)
					if i == tc.fails {
						require.Equal(t, tc.attempts, r.AttemptCount)
					} else {
						require.Zero(t, r.AttemptCount, "followers are not charged")
					}
				}
			})
		})
	}
}

func TestDeadHeadParksItsKeyOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.BatchSize = 100 })
		rows := b.store.addOrdered(3, "a", "red")
		rows[0].Payload = []byte(`{}`) // unfit
		b.store.addOrdered(3, "b", "red")
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Second)
		require.Equal(t, 3, b.store.count(isPublished), "the other key flows")
		b.store.mu.Lock()
		require.Equal(t, outbox.ReasonInvalidPayload, rows[0].dead)
		require.True(t, b.store.discard(rows[0].ID))
		b.store.mu.Unlock()
		time.Sleep(time.Second)
		stop()
		require.Equal(t, 5, b.store.count(isPublished))
	})
}

// A lone busy key never fills a claim, which grows for it all the same.
func TestBusyKeyIsSentInLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.BatchSize, c.MaxInFlight = 40, 10*maxBatch })
		b.broker.latency = func(string) time.Duration { return 20 * time.Millisecond } // claims find nothing meanwhile
		rows := b.store.addOrdered(4*maxBatch, "a", "red")
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Minute)
		stop()
		requests, arrived := b.broker.sent()
		require.Equal(t, idsOfRows(rows), arrived)
		require.Less(t, len(requests), 30, "of a quarter of the largest claim each, once claims have grown")
	})
}

// A follower that cannot be sent is judged at its turn: those before it go first, and those behind it wait.
func TestUnfitRowIsJudgedAtItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.BatchSize = 100 })
		rows := b.store.addOrdered(4, "a", "red")
		rows[2].Payload = []byte(`{}`)
		rows[0].next = time.Now().Add(3 * time.Second)
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Second)
		require.Zero(t, b.store.count(func(r memRow) bool { return r.dead != "" }))
		time.Sleep(5 * time.Second)
		stop()
		_, arrived := b.broker.sent()
		require.Equal(t, idsOfRows(rows[:2]), arrived)
		require.NotEmpty(t, rows[2].dead)
		require.Zero(t, rows[3].AttemptCount)
	})
}

// A key that the broker is sent too much of waits alone.
func TestThrottledKeyDoesNotStopItsTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.addOrdered(3, "a", "red")
		b.broker.verdict = func(_ string, m Message) error {
			if m.OrderingKey == "a" {
				return NewFailure(Retryable, "ResourceExhausted", errors.Join(ErrThrottled, errors.New("no")))
			}
			return nil
		}
		stop := start(t, b.Dispatcher)
		time.Sleep(5 * time.Second)
		b.store.addOrdered(3, "b", "red")
		time.Sleep(time.Second)
		stop()
		require.Equal(t, 3, b.store.count(isPublished))
		require.Empty(t, b.observer.states("reds"))
	})
}

// The request under way is awaited, and the rest of its run is given back unsent.
func TestShutdownReleasesTheRestOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.BatchSize = 100 })
		rows := append(b.store.addOrdered(2, "a", "red"), b.store.addOrdered(2, "a", "blue")...)
		b.broker.latency = func(string) time.Duration { return 3 * time.Second }
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Second)
		stop()
		_, arrived := b.broker.sent()
		require.Equal(t, idsOfRows(rows[:2]), arrived)
		for i, r := range b.store.all() {
			require.Equal(t, []any{i < 2, false, 0}, []any{isPublished(r), r.leased(), r.AttemptCount}, i)
		}
	})
}

func TestTrialOfAnOrderedTopicIsAHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.BatchSize = 8 })
		heads := map[string]bool{}
		for i := range 400 {
			rows := b.store.addOrdered(3, fmt.Sprint("key ", i), "red")
			heads[rows[0].ID] = true
		}
		b.broker.verdict = func(string, Message) error { return NewFailure(Retryable, "Unavailable", errors.New("away")) }
		stop := start(t, b.Dispatcher)
		time.Sleep(10 * time.Second)
		requests, _ := b.broker.sent()
		require.Greater(t, len(requests), 5)
		require.Less(t, len(requests), 100, "one row after the other is on trial")
		for _, r := range requests {
			require.True(t, heads[r[0]])
		}
		b.broker.set(func() { b.broker.verdict = nil })
		time.Sleep(20 * time.Second)
		stop()
		require.Equal(t, 1200, b.store.count(isPublished))
	})
}

func TestOnceDoesNotWaitForParkedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Once = true })
		rows := b.store.addOrdered(300, "a", "red")
		rows[200].Payload = []byte(`{}`)
		b.store.addOrdered(40, "b", "blue")
		b.store.add(10, "red")
		began := time.Now()
		require.NoError(t, b.Run(t.Context()))
		require.Equal(t, 250, b.store.count(isPublished))
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

// While sweeps are rationed a key goes on as soon as it is settled.
func TestFollowersWaitForNoSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.BatchSize = 4 })
		b.store.walkCost = func(int) time.Duration { return 50 * time.Millisecond }
		b.store.addOrdered(8, "a", "red")
		stop := start(t, b.Dispatcher)
		time.Sleep(3 * time.Second)
		b.store.addOrdered(12, "b", "red") // one row of a key with every claim
		began := time.Now()
		for b.store.count(isPublished) < 20 && time.Since(began) < 10*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, time.Since(began), 3*time.Second)
		stop()
	})
}

// Rows whose turn it is not fill a window, and not the claim.
func TestClaimGoesOnBehindRowsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		rows := b.store.addOrdered(3*windowRows, "a", "red")
		rows[0].next = time.Now().Add(time.Hour)
		b.store.addOrdered(5, "b", "red")
		stop := start(t, b.Dispatcher)
		time.Sleep(2 * time.Second)
		stop()
		require.Equal(t, 5, b.store.count(isPublished))
	})
}

// Where no key is used, the claims of the others tell that there is none. The first one that comes is met at once.
func TestUnusedKeysCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.PollInterval = time.Second })
		stop := start(t, b.Dispatcher)
		for range 100 {
			b.store.add(1, "red")
			time.Sleep(50 * time.Millisecond)
		}
		b.store.mu.Lock()
		looks := b.store.keyLooks
		b.store.mu.Unlock()
		require.Less(t, looks, 20, "in five seconds of traffic")
		b.store.addOrdered(1, "a", "red")
		b.store.add(1, "red")
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, 102, b.store.count(isPublished))
		stop()
	})
}

// A topic that does not answer keeps no key of another one waiting.
func TestKeysOfAHungTopicLeaveRoomForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.BatchSize = 1000 })
		b.broker.latency = func(topic string) time.Duration {
			return map[string]time.Duration{"reds": time.Hour}[topic]
		}
		for i := range 2 * orderedRequests {
			b.store.addOrdered(1, fmt.Sprint("red ", i), "red")
		}
		b.store.addOrdered(1, "blue", "blue")
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Second)
		require.Equal(t, 1, b.store.count(isPublished))
		stop()
	})
}
