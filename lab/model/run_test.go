package model

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) {
	outboxtest.Main(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// play takes the steps until one does not come out as the model says.
func play(ctx context.Context, w *world, steps []step) (trace []string, taken int, err error) {
	if err := w.reset(ctx); err != nil {
		return nil, 0, err
	}
	g := &game{w: w, m: newModel()}
	for i, s := range steps {
		if err := g.take(ctx, s); err != nil {
			return g.trace, i + 1, err
		}
	}
	return g.trace, len(steps), nil
}

// shrinkTime bounds the search for a shorter sequence.
const shrinkTime = 2 * time.Minute

// shrink leaves out steps, many at a time and then one by one, and lowers their numbers, as long as what is left fails too.
func shrink(ctx context.Context, w *world, steps []step) []step {
	end := time.Now().Add(shrinkTime)
	fails := func(steps []step) (taken int, err error) {
		if time.Now().Before(end) {
			_, taken, err = play(ctx, w, steps)
		}
		return taken, err
	}
	for before := -1; before != len(steps); {
		before = len(steps)
		for size := (len(steps) + 1) / 2; size > 0; size /= 2 {
			for at := len(steps) - size; at >= 0; at-- {
				less := slices.Concat(steps[:at], steps[min(at+size, len(steps)):])
				if taken, err := fails(less); err != nil {
					steps = less[:taken]
				}
			}
		}
		for i := 0; i < len(steps); i++ {
			for j := range steps[i].n {
				less := slices.Clone(steps)
				if less[i].n[j] /= 2; less[i] == steps[i] {
					continue
				}
				if taken, err := fails(less); err != nil {
					steps = less[:taken]
				}
			}
		}
	}
	return steps
}

// TestModel plays sequences: a few, or as many as make simulate asks for, on as many databases as there are processors.
func TestModel(t *testing.T) {
	first, count, workers := uint64(1), uint64(10), 1
	if text := os.Getenv("SIMULATE_SEEDS"); text != "" {
		var err error
		count, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		first, err = strconv.ParseUint(os.Getenv("SIMULATE_SEED"), 10, 64)
		require.NoError(t, err)
		workers = runtime.NumCPU()
	}
	start := time.Now()
	var next, steps atomic.Uint64
	var playing sync.WaitGroup
	for range workers {
		w := newWorld(t)
		playing.Go(func() {
			for n := next.Add(1) - 1; n < count && !t.Failed(); n = next.Add(1) - 1 {
				steps.Add(uint64(playSeed(t, w, first+n)))
			}
		})
	}
	playing.Wait()
	t.Logf("%d sequences from seed %d, %d steps in %v", count, first, steps.Load(), time.Since(start).Round(time.Millisecond))
}

// playSeed plays the sequence of a seed. Where it fails it reports a short one that fails too.
func playSeed(t *testing.T, w *world, seed uint64) (taken int) {
	steps := sequence(seed)
	first, taken, err := play(t.Context(), w, steps)
	if err == nil {
		return taken
	}
	short := shrink(t.Context(), w, steps[:taken])
	trace, _, again := play(t.Context(), w, short)
	if again == nil {
		t.Errorf("seed %d failed, and its sequence, played again, did not:\n  %s\n%v", seed, strings.Join(first, "\n  "), err)
	} else {
		t.Errorf("seed %d:\n  %s\n%v", seed, strings.Join(trace, "\n  "), again)
	}
	return taken
}
