package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/ratelimit"
)

func TestEachNameHasALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	now := time.Now()
	limits := ratelimit.New(3)
	for range 3 {
		require.True(t, limits.Of("ann").AllowN(now, 1))
	}
	require.False(t, limits.Of("ann").AllowN(now, 1))
	require.True(t, limits.Of("bob").AllowN(now, 1))
	require.True(t, limits.Of("ann").AllowN(now.Add(20*time.Second), 1), "one more after a third of a minute")
	require.False(t, limits.Of("ann").AllowN(now.Add(20*time.Second), 1))

	for i := range 10_000 { // who makes up names does not fill the memory
		limits.Of(fmt.Sprint(i))
	}
	require.True(t, limits.Of("ann").AllowN(now.Add(20*time.Second), 1))
}
