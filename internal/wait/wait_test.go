package wait_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/wait"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, wait.For(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, wait.For(ctx, 0))
		require.ErrorIs(t, wait.For(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, time.Hour+time.Minute, time.Since(began))
		require.ErrorIs(t, wait.For(ctx, 0), context.DeadlineExceeded)
	})
}

// What is answered late is asked for again, for a while; what is refused is not.
func TestPatiently(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	late := fmt.Errorf("ensure topic: %w", context.DeadlineExceeded)
	for want, answers := range map[int][]error{1: {refused}, 2: {late, nil}, 3: {late, late, refused}, 13: slices.Repeat([]error{late}, 99)} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			_, err := wait.Patiently(t.Context(), func(ctx context.Context) (int, error) {
				require.NoError(t, wait.For(ctx, 5*time.Second))
				asked++
				return asked, answers[asked-1]
			})
			require.Equal(t, want, asked)
			require.Equal(t, answers[asked-1], err)
		})
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	_, err := wait.Patiently(ctx, func(ctx context.Context) (int, error) { return 0, ctx.Err() })
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
