package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
)

func TestBackoffIsUniformInTheUpperHalf(t *testing.T) {
	t.Parallel()
	b := wire.Backoff{Min: time.Second, Max: 5 * time.Minute}
	for attempts, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute,
	} {
		require.Equal(t, want, b.Pause(attempts))
		require.Equal(t, want/2, b.Jittered(attempts, 0))
		require.Equal(t, want*3/4, b.Jittered(attempts, 0.5))
		require.Less(t, b.Jittered(attempts, 0.999999), want)
	}
	require.Equal(t, time.Duration(1<<62), wire.Backoff{Min: 1 << 61, Max: 1 << 62}.Jittered(1000, 1))
}
