package pubsub

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
)

func TestFlowBlocks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		requests      int
		maxBytes      int64
		first, second int64
		waits         bool
	}{
		{"room for both", 2, 100, 50, 50, false},
		{"too many requests", 1, 100, 1, 1, true},
		{"too many bytes", 2, 100, 50, 51, true},
		{"one larger than everything", 2, 100, 1000, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFlow(tc.requests, tc.maxBytes)
				release, err := f.acquire(t.Context(), tc.first)
				require.NoError(t, err)
				entered := false
				go func() {
					leave, err := f.acquire(t.Context(), tc.second)
					assert.NoError(t, err)
					entered = true
					leave()
				}()
				synctest.Wait()
				require.Equal(t, !tc.waits, entered)
				release()
				synctest.Wait()
				require.True(t, entered)
			})
		})
	}
}

func TestFlowIsClosedWhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newFlow(1, 100).acquire(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// The last quarter of the time is for answers: what has not begun by then is not sent.
func TestNoRequestBeginsInTheLastQuarter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &Client{cfg: Config{Project: "p", PublishTimeout: 4 * time.Second, Concurrency: 1, MaxOutstandingBytes: 100}}
		p := client.NewPublisher(map[string]string{"domain": "events"}).(*Publisher)
		release, err := p.flows[client.topicPath("events")].acquire(t.Context(), 1)
		require.NoError(t, err)
		defer release()
		began := time.Now()
		results := p.Publish(t.Context(), "domain", []dispatch.Message{{EventID: "e1"}})
		require.ErrorIs(t, results[0].Err, dispatch.ErrUnsent)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}
