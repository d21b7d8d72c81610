package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A run with Once must not look complete after deaths, and after a claim whose
// reply was lost: nothing is left to claim then, and yet not everything is
// published.
func TestOnceCountsWhatItLeavesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Once = true })
		rows := b.store.add(10, "red")
		rows[1].AggregateType = "other"
		b.broker.verdict = func(_ string, m Message) error {
			if m.EventID == rows[2].ID {
				return NewFailure(Retryable, "Internal", errors.New("cannot store it"))
			}
			return nil
		}
		require.NoError(t, b.Run(t.Context()))
		require.Equal(t, Totals{Published: 8, Failed: 1, Dead: 1}, b.Totals())
		require.EqualValues(t, 8, b.State().Published)
	})
}

// lossyStore loses the reply to one claim.
type lossyStore struct {
	*memStore
	lost atomic.Bool
}

func (s *lossyStore) Claim(ctx context.Context, p ClaimParams) (Claim, error) {
	claim, err := s.memStore.Claim(ctx, p)
	if err == nil && !p.Ordered && s.lost.CompareAndSwap(false, true) {
		return Claim{}, errors.New("connection reset by peer")
	}
	return claim, err
}

func TestOnceNamesTheRowsOfALostClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Once, c.BatchSize = true, 10 })
		b.store.add(30, "red")
		d, err := New(b.cfg, &lossyStore{memStore: b.store}, b.broker, memCatalogue{}, b.observer, nil)
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, d.Run(t.Context()))
		got := d.Totals()
		require.Equal(t, Totals{Published: 20, Held: 10, HeldUntil: began.Add(DefaultLease)}, got)
	})
}

func TestOnceSaysThatItCouldNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Once = true })
		b.store.fail = func(call string) error {
			if call == "held" {
				return errors.New("connection refused")
			}
			return nil
		}
		require.NoError(t, b.Run(t.Context()))
		require.Equal(t, -1, b.Totals().Held)
	})
}
