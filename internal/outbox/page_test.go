package outbox_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// However long the list and the limit are, the limit is kept, and the answer whether there are more rows is right.
func TestReadPages(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{0, 1, 2, outbox.ReadAtOnce - 1, outbox.ReadAtOnce, outbox.ReadAtOnce + 1, 2*outbox.ReadAtOnce + 1} {
		for _, limit := range []int{0, 1, 2, outbox.ReadAtOnce - 1, outbox.ReadAtOnce, outbox.ReadAtOnce + 1, math.MaxInt} {
			next, seen := 0, 0
			last, more, err := outbox.ReadPages(limit, func(row int) error {
				seen++
				require.Equal(t, seen, row, "each row once and in order")
				return nil
			}, func(n int) ([]int, error) {
				require.LessOrEqual(t, n, outbox.ReadAtOnce)
				var page []int
				for ; len(page) < n && next < rows; next++ {
					page = append(page, next+1)
				}
				return page, nil
			})
			require.NoError(t, err)
			want := rows
			if limit > 0 {
				want = min(rows, limit)
			}
			require.Equal(t, want, seen, "%d rows, limit %d", rows, limit)
			require.Equal(t, want, last)
			require.Equal(t, want < rows, more, "%d rows, limit %d", rows, limit)
		}
	}
}

func TestReadPagesStopsAtAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	read := func(int) ([]int, error) { return []int{1, 2}, nil }
	_, _, err := outbox.ReadPages(0, func(int) error { return broken }, read)
	require.ErrorIs(t, err, broken)
	_, _, err = outbox.ReadPages(0, func(int) error { return nil }, func(int) ([]int, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
}
