package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStopWaitsForPublishesInFlightAndSettlesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.latency = func(string) time.Duration { return 8 * time.Second }
		b.store.add(50, "red")
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		require.Equal(t, 7*time.Second, time.Since(began))
		require.Equal(t, 50, b.store.count(isPublished))
		require.Zero(t, b.store.count(func(r memRow) bool { return r.leased() }))
	})
}

func TestStopGivesUpOnTimeAndKeepsTheLeaseOfWhatMayStillLand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.ShutdownTimeout = 2 * time.Second })
		b.broker.latency = func(string) time.Duration { return 9 * time.Second }
		b.store.add(5, "red")
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		require.Equal(t, 1500*time.Millisecond, time.Since(began), "a quarter is kept for settling")
		for _, r := range b.store.all() {
			require.True(t, r.leased())
			require.Zero(t, r.AttemptCount)
		}
	})
}

func TestStopIsNotHeldUpByADatabaseThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		silent := &silentStore{Store: b.store}
		d, err := New(Config{Names: memNames("red"), ShutdownTimeout: 2 * time.Second}, silent, b.broker, memCatalogue{}, b.observer, nil)
		require.NoError(t, err)
		stop := start(t, d)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
	})
}

// silentStore answers no claim.
type silentStore struct{ Store }

func (s *silentStore) Claim(ctx context.Context, _ ClaimParams) (Claim, error) {
	<-ctx.Done()
	return Claim{}, ctx.Err()
}

func TestStopDuringAClaimReleasesItsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(10, "red")
		b.store.walkCost = func(int) time.Duration { return time.Second }
		stop := start(t, b.Dispatcher)
		time.Sleep(500 * time.Millisecond)
		stop()
		for _, r := range b.store.all() {
			require.False(t, r.leased())
			require.Zero(t, r.AttemptCount)
			require.Zero(t, b.broker.times(r.ID))
		}
	})
}

func TestDatabaseAwayIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(100, "red")
		start(t, b.Dispatcher)
		time.Sleep(time.Second)
		b.store.mu.Lock()
		b.store.fail = func(string) error { return errors.New("connection refused") }
		b.store.mu.Unlock()
		b.store.add(100, "red")
		for range 60 {
			time.Sleep(time.Second)
			require.Less(t, time.Since(b.LastPulse()), 2*time.Second, "the loop moves although the database does not")
		}
		b.store.mu.Lock()
		b.store.fail = nil
		b.store.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, 200, b.store.count(isPublished))
	})
}

func TestSettleIsRepeatedUntilTheDatabaseIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(100, "red")
		away := true
		b.store.fail = func(call string) error {
			if call == "settle" && away {
				return errors.New("connection reset")
			}
			return nil
		}
		start(t, b.Dispatcher)
		time.Sleep(5 * time.Second)
		require.Zero(t, b.store.count(isPublished))
		b.store.mu.Lock()
		away = false
		b.store.mu.Unlock()
		time.Sleep(2 * time.Second)
		for _, r := range b.store.all() {
			require.True(t, isPublished(r))
			require.Equal(t, 1, b.broker.times(r.ID))
		}
	})
}

func TestRefusedVerdictDoesNotTakeTheOthersDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(100, "red")
		poison := &refusingStore{Store: b.store, id: b.store.all()[41].ID}
		d, err := New(Config{Names: memNames("red")}, poison, b.broker, memCatalogue{}, b.observer, nil)
		require.NoError(t, err)
		stop := start(t, d)
		time.Sleep(time.Second)
		stop()
		require.Equal(t, 99, b.store.count(isPublished))
		require.Len(t, b.observer.troubles, 1)
	})
}

type refusingStore struct {
	Store
	id string
}

func (s *refusingStore) Settle(ctx context.Context, v Verdicts) (Settled, error) {
	for _, d := range v.Published {
		if d.ID == s.id {
			return Settled{}, fmt.Errorf("settle: %w", ErrRefused)
		}
	}
	return s.Store.Settle(ctx, v)
}

func TestIdleOutboxIsLookedAtNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		start(t, b.Dispatcher)
		time.Sleep(10 * time.Second)
		claims, looks := b.store.calls()
		time.Sleep(60 * time.Second)
		claimsNow, looksNow := b.store.calls()
		require.Equal(t, claims, claimsNow)
		require.InDelta(t, 120, looksNow-looks, 20, "two queries a second")
	})
}

func TestLateCommitIsFoundWithinOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		late := b.store.add(1, "red")[0]
		late.next = time.Now().Add(time.Hour) // stands for a row not committed yet
		start(t, b.Dispatcher)
		for range 50 {
			b.store.add(20, "red")
			time.Sleep(100 * time.Millisecond)
		}
		b.store.mu.Lock()
		late.next = time.Now()
		b.store.mu.Unlock()
		time.Sleep(DefaultPollInterval)
		require.Equal(t, 1, b.broker.times(late.ID))
	})
}

func TestBytesInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.MaxInFlightBytes = 1000 })
		most := int64(0)
		b.broker.latency = func(string) time.Duration {
			_, bytes := b.InFlight()
			b.broker.set(func() { most = max(most, bytes) })
			return 10 * time.Millisecond
		}
		b.store.add(200, "red")
		start(t, b.Dispatcher)
		time.Sleep(20 * time.Second)
		require.Equal(t, 200, b.store.count(isPublished))
		size := int64(len(b.store.all()[0].Payload))
		require.LessOrEqual(t, most, 1000+DefaultWorkers*size)
		require.Greater(t, most, int64(500))
	})
}

func TestRowsOfALateClaimAreGivenBackUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Lease, c.PublishTimeout = 4*time.Second, time.Second })
		b.store.add(3, "red")
		slow := true
		b.store.walkCost = func(int) time.Duration {
			if slow {
				slow = false
				return 3 * time.Second
			}
			return 0
		}
		stop := start(t, b.Dispatcher)
		time.Sleep(10 * time.Second)
		stop()
		require.Equal(t, []string{"send: " + errTooLate.Error()}, b.observer.troubles)
		for _, r := range b.store.all() {
			require.Equal(t, 1, b.broker.times(r.ID))
			require.Zero(t, r.AttemptCount)
		}
	})
}
