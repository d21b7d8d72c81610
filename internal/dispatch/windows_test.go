package dispatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowHead gives the store rows at its head that cannot be claimed, and makes a
// walk over all of them take longer than a claim is given.
func slowHead(b *bundle, rows int, whole time.Duration) {
	for _, r := range b.store.add(rows, "red") {
		r.next = time.Now().Add(1000 * time.Hour)
	}
	b.store.walkCost = func(walked int) time.Duration { return time.Duration(walked) * whole / time.Duration(rows) }
}

// A sweep that takes longer than a claim is given must not be tried again and
// again: everything behind it waits.
func TestSweepSlowerThanAClaimDoesNotStopPublishing(t *testing.T) {
	for name, workers := range map[string]int{"one worker": 1, "three workers": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, func(c *Config) { c.Workers = workers })
				slowHead(b, 40_000, 12*claimTimeout)
				b.store.rows[20_000].next = time.Now() // is due in the middle of it
				start(t, b.Dispatcher)
				time.Sleep(30 * time.Second) // the first claims fail
				var waited time.Duration
				for i := range 60 {
					row := b.store.add(1, "blue")[0]
					committed := time.Now()
					if i == 30 {
						b.store.rows[10_000].next = time.Now() // comes due below the hint
					}
					for b.broker.times(row.ID) == 0 && time.Since(committed) < time.Minute {
						time.Sleep(10 * time.Millisecond)
					}
					waited = max(waited, time.Since(committed))
					time.Sleep(time.Second)
				}
				require.Less(t, waited, claimTimeout, "new rows wait for one window at most, which a claim is given the time for")
				time.Sleep(5 * time.Minute)
				require.Equal(t, 62, b.store.count(isPublished), "the sweep gets to the rows below the hint")
			})
		})
	}
}

// width is how many seq a window of b's sweeps has.
func width(b *bundle) int64 {
	b.plainStream.cursor.mu.Lock()
	defer b.plainStream.cursor.mu.Unlock()
	return b.plainStream.cursor.width
}

// A sweep in windows is over when it is fast again: retries and late commits are
// then found with every claim.
func TestSweepsAreWholeAgainWhenTheyAreFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		slowHead(b, 40_000, 12*claimTimeout)
		start(t, b.Dispatcher)
		time.Sleep(time.Minute)
		require.Positive(t, width(b))
		b.store.mu.Lock()
		b.store.walkCost = nil
		b.store.mu.Unlock()
		time.Sleep(time.Minute)
		require.Zero(t, width(b))
	})
}

// With Once, a sweep in windows is waited for to its end.
func TestOnceSweepsEveryWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Once = true })
		slowHead(b, 40_000, 3*claimTimeout)
		for _, i := range []int{10_000, 20_000, 39_000} {
			b.store.rows[i].next = time.Now()
		}
		require.NoError(t, b.Run(t.Context()))
		require.Equal(t, 3, b.store.count(isPublished))
	})
}

// A topic whose rows lie far behind others must come back although the walk to
// them is too long for a trial.
func TestTopicRecoversBehindASlowWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.outage("blues")
		b.store.add(1, "blue")
		start(t, b.Dispatcher)
		time.Sleep(time.Second)
		slowHead(b, 40_000, 3*claimTimeout)
		b.store.add(10, "blue")
		b.broker.back()
		time.Sleep(10 * time.Minute)
		require.Equal(t, 11, b.store.count(isPublished))
	})
}

// Where nothing can be claimed, because all that waits has an ordering key, claims do not walk over it each time.
func TestClaimsGetAHintFromASlowSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		slowHead(b, 1000, 5*sweepSlow)
		start(t, b.Dispatcher)
		time.Sleep(time.Minute)
		require.False(t, b.plainStream.cursor.blind())
		b.store.mu.Lock()
		b.store.rows[10].next = time.Now()
		b.store.mu.Unlock()
		b.store.add(1, "blue")
		time.Sleep(2 * sweepPause)
		require.Equal(t, 2, b.store.count(isPublished), "what comes due below the hint is found by the sweeps")
	})
}

// A worker that is alone with its sweeps keeps others waiting for a window of one at most.
func TestTheOnlyWorkerSweepsInWindows(t *testing.T) {
	t.Parallel()
	const limit = 20 * time.Millisecond
	now := time.Now()
	c := &cursor{maxSweep: limit, low: 100_000}
	s := c.next(now, true)
	now = now.Add(3 * limit)
	require.True(t, c.done(s, now, false, 0, 0))
	require.EqualValues(t, 25_000, c.width)
	require.True(t, c.rationed(now.Add(time.Hour)), "what follows in a key may lie in another window")

	c.rewind(now.Add(time.Second))
	now = now.Add(2 * time.Second)
	windows := 0
	for ended := false; !ended; windows++ {
		s := c.next(now, false)
		require.True(t, s.window, "a pass that was asked for does not rest")
		now = now.Add(limit / 2)
		ended = c.done(s, now, false, 0, 0)
	}
	require.Equal(t, 4, windows)
	require.True(t, c.rewound.IsZero())
	require.Positive(t, c.width, "all of it would still be felt")
	for c.width > 0 {
		now = now.Add(time.Minute)
		s := c.next(now, false)
		require.True(t, s.window)
		c.done(s, now.Add(time.Millisecond), false, 0, 0)
	}
	require.True(t, c.next(now.Add(time.Minute), false).sweep)
}

func TestWindows(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &cursor{}
	c.failed(c.next(now, false), now, 0)
	require.Zero(t, c.width, "nothing is known of the table's size")
	whole := c.next(now, false)
	c.failed(whole, now, 100_000)
	require.EqualValues(t, 25_000, c.width)

	later := now.Add(sweepPause)
	first := c.next(later, false)
	require.Equal(t, span{through: 25_000, sweep: true, window: true, began: later}, first)
	require.Equal(t, span{after: 100_000, began: later}, c.next(later, true), "others keep to the hint meanwhile")
	c.failed(whole, later, 0)
	require.EqualValues(t, 25_000, c.width, "of another that failed nothing is learned")
	c.failed(first, later, 0)
	require.EqualValues(t, 6250, c.width)

	second := c.next(later, true)
	require.Equal(t, span{through: 6250, sweep: true, window: true, began: later}, second, "the same place, and less of it")
	require.False(t, c.done(second, later.Add(windowFast), true, 1, 7))
	third := c.next(later, true)
	require.EqualValues(t, 7, third.after, "there was more behind the last row")
	require.False(t, c.done(third, later.Add(2*windowSlow), false, 0, 0))
	require.EqualValues(t, 3125, c.width, "slow windows become narrower")
	for c.width > windowMin {
		c.failed(c.next(later, true), later, 0)
	}
	stuck := c.next(later, true)
	c.failed(stuck, later, 0)
	require.Equal(t, stuck.through, c.next(later, true).after, "a narrow one that fails is passed over")

	c.at, c.sweeping = 99_500, false
	last := c.next(later, true)
	require.Zero(t, last.through, "the last window has no end")
	c.rewind(later)
	require.True(t, c.done(last, later, false, 0, 0))
	require.Zero(t, c.next(later, false).after, "what became claimable since then asks for another sweep")
	require.EqualValues(t, 100_000, c.low)
}

// The only worker must not let a slow moment turn a pass over what waits into minutes, and looks a little below its hint:
// what committed a moment late is not left to that pass.
func TestWindowsOfTheOnlyWorker(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &cursor{maxSweep: orderedMaxSweep}
	c.done(c.next(now, false), now.Add(time.Second), false, 0, 100_000)
	require.EqualValues(t, windowMinAlone, c.width)
	require.EqualValues(t, 100_000-lateRows, c.next(now, false).after)
	slow := c.next(now.Add(time.Minute), false)
	require.True(t, slow.window)
	c.done(slow, slow.began.Add(time.Second), false, 0, 0)
	require.EqualValues(t, windowMinAlone, c.width)
	c.failed(c.next(now.Add(2*time.Minute), false), now.Add(2*time.Minute), 0)
	require.Less(t, c.width, int64(windowMinAlone), "one that failed gets narrower all the same")
	narrow := c.next(now.Add(3*time.Minute), false)
	was := c.width
	c.done(narrow, narrow.began.Add(time.Second), false, 0, 0)
	require.Equal(t, was, c.width, "and no wider by being slow")
	c.low = lateRows / 2
	c.nextSweep = now.Add(time.Hour)
	require.Zero(t, c.next(now, false).after)
}

// A failure that took no time is not a long walk.
func TestFailedHintedClaimsDoNotAskForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(10, "red")
		start(t, b.Dispatcher)
		time.Sleep(time.Second)
		asked := 0
		b.store.mu.Lock()
		b.store.fail = func(call string) error {
			if call == "last" {
				asked++
			}
			return errors.New("connection refused")
		}
		b.store.mu.Unlock()
		time.Sleep(time.Minute)
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		require.Zero(t, asked)
	})
}
