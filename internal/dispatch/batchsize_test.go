package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatchSizeGrowsWhileFullAndFallsBack(t *testing.T) {
	t.Parallel()
	s := newBatchSize(50)
	for _, want := range []int{100, 200, 400, 800, 1000, 1000} {
		s.done(s.limit(), s.limit())
		require.Equal(t, want, s.limit())
	}
	s.done(1000, 700)
	require.Equal(t, 1000, s.limit())
	s.done(1000, 3)
	require.Equal(t, 50, s.limit())
	require.Equal(t, 5000, newBatchSize(5000).limit())
}
