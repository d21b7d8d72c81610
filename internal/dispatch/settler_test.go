package dispatch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowSettles takes its time for each transaction, and remembers how many verdicts it had.
type slowSettles struct {
	Store
	takes time.Duration
	mu    sync.Mutex
	rows  []int
}

func (s *slowSettles) Settle(_ context.Context, v Verdicts) (Settled, error) {
	s.mu.Lock()
	s.rows = append(s.rows, v.Len())
	s.mu.Unlock()
	time.Sleep(s.takes)
	return Settled{}, nil
}

// A verdict alone is recorded at once; those that come one by one beside a transaction share the next.
func TestFewVerdictsShareATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowSettles{takes: 8 * settleGather}
		s := newSettler(Config{Lease: time.Minute, SettleTimeout: time.Minute, turn: func(string) {}}, store, &memObserver{})
		quit := make(chan struct{})
		var settlers sync.WaitGroup
		for range 4 {
			settlers.Go(func() { s.run(t.Context(), t.Context(), quit) })
		}
		began, alone := time.Now(), make(chan time.Duration, 1)
		s.submit(settlement{verdicts: Verdicts{Released: []Key{{}}}, done: func() { alone <- time.Since(began) }})
		for range 15 {
			time.Sleep(settleGather / 20)
			s.submit(settlement{verdicts: Verdicts{Released: []Key{{}}}, done: func() {}})
		}
		require.Equal(t, store.takes, <-alone)
		time.Sleep(time.Second)
		close(quit)
		settlers.Wait()
		require.Equal(t, []int{1, 15}, store.rows)
	})
}
