package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoffIsUniformInTheUpperHalf(t *testing.T) {
	t.Parallel()
	b := Backoff{Base: time.Second, Max: 5 * time.Minute}
	for attempts, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute,
	} {
		require.Equal(t, want/2, b.Delay(attempts, 0))
		require.Equal(t, want*3/4, b.Delay(attempts, 0.5))
		require.Less(t, b.Delay(attempts, 0.999999), want)
	}
	require.Equal(t, time.Duration(1<<62), Backoff{Base: 1 << 61, Max: 1 << 62}.Delay(1000, 1))
}
