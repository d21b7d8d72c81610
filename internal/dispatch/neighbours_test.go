package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// contagious fails every request that holds a certain message, with an error
// that does not say which.
type contagious struct {
	*memBroker
	ill map[string]bool
}

func (b contagious) Publish(ctx context.Context, topic string, msgs []Message) []Result {
	for _, m := range msgs {
		if !b.ill[m.EventID] {
			continue
		}
		results := make([]Result, len(msgs))
		for i := range results {
			results[i].Err = NewFailure(Retryable, "Internal", errors.New("something broke"))
		}
		return results
	}
	return b.memBroker.Publish(ctx, topic, msgs)
}

func TestNoRowDiesOfItsNeighbours(t *testing.T) {
	for _, maxAttempts := range []int{2, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			b := newBundle(t, func(c *Config) { c.MaxAttempts = maxAttempts })
			rows := b.store.add(60, "red")
			ill := map[string]bool{rows[0].ID: true, rows[30].ID: true}
			d, err := New(b.cfg, b.store, contagious{b.broker, ill}, memCatalogue{}, b.observer, nil)
			require.NoError(t, err)
			start(t, d)
			time.Sleep(30 * time.Minute)
			for _, r := range b.store.all() {
				if ill[r.ID] {
					require.Equal(t, outbox.ReasonMaxAttempts, r.dead)
				} else {
					require.False(t, r.published.IsZero(), "with %d attempts, %d spent", maxAttempts, r.AttemptCount)
				}
			}
		})
	}
}
