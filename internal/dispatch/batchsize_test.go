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

// Publishers that meet on the same rows would otherwise go on in small steps, each over all that the others hold.
func TestAClaimThatAnotherCameBeforeKeepsItsSize(t *testing.T) {
	t.Parallel()
	s := &stream{batchSize: newBatchSize(50)}
	for _, want := range []int{100, 200, 400} {
		s.resize(s.batchSize.limit(), Claim{Full: true, Beaten: true}, false, false)
		require.Equal(t, want, s.batchSize.limit())
	}
	s.resize(400, Claim{Rows: make([]Claimed, 3), Full: true}, false, false) // cut by its bytes
	require.Equal(t, 50, s.batchSize.limit())
}
