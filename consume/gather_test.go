package consume

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A second group goes beside the first only when it is worth it, and whatever waits is done in the end.
func TestASecondGroupIsLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, began, done := make(chan struct{}), make(chan []int, 10), make(chan []int, 10)
		g := gather[int]{size: 8, lanes: 2, do: func(group []int) {
			began <- group
			<-release
			done <- group
		}}
		g.add(1)
		synctest.Wait()
		g.add(2)
		synctest.Wait()
		require.Len(t, began, 1)
		require.Equal(t, []int{1}, <-began)
		g.add(3)
		synctest.Wait()
		require.Equal(t, []int{2, 3}, <-began)
		for i := range 9 {
			g.add(4 + i)
		}
		synctest.Wait()
		require.Empty(t, began)
		close(release)
		synctest.Wait()
		close(done)
		var all []int
		for group := range done {
			require.LessOrEqual(t, len(group), g.size)
			all = append(all, group...)
		}
		slices.Sort(all)
		require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, all)
		require.Zero(t, g.busy)
	})
}
