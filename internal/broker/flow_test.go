package broker

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
