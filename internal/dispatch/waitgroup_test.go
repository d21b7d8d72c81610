package dispatch

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sync.WaitGroup panics here: work begins again while another goroutine still wakes up from waiting.
func TestTallyMayBeWaitedForWhileWorkBegins(t *testing.T) {
	t.Parallel()
	var tl waitGroup
	tl.wait()
	require.False(t, tl.busy())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20_000 {
				tl.add(1)
				tl.add(-1)
			}
		})
		all.Go(func() {
			for range 20_000 {
				tl.wait()
			}
		})
	}
	all.Wait()
	require.False(t, tl.busy())
}

func TestTallyWaitsForTheLast(t *testing.T) {
	t.Parallel()
	var tl waitGroup
	tl.add(1)
	tl.add(1)
	tl.add(-1)
	require.True(t, tl.busy())
	done := make(chan struct{})
	go func() { tl.wait(); close(done) }()
	select {
	case <-done:
		require.Fail(t, "returned while work was under way")
	default:
	}
	tl.add(-1)
	<-done
}
