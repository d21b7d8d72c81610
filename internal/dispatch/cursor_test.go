package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExpensiveSweepsGetATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		for _, r := range b.store.add(8_000, "red") {
			r.next = time.Now().Add(time.Hour)
		}
		b.store.walkCost = func(walked int) time.Duration { return time.Duration(walked) * 2 * time.Microsecond }
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Second)
		var sweeping time.Duration
		began := time.Now()
		b.observer.forget()
		for range 200 {
			b.store.add(5, "blue")
			time.Sleep(50 * time.Millisecond)
		}
		stop()
		for _, c := range b.observer.claims {
			if c.Sweep {
				sweeping += c.Took
			}
		}
		require.Equal(t, 1000, b.store.count(isPublished))
		require.Positive(t, sweeping)
		require.Less(t, sweeping, time.Since(began)/8)
	})
}

// Where little waits each claim is a sweep; leases whose time is over are looked for by a few of them.
func TestLeasesAreEndedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		stop := start(t, b.Dispatcher)
		for range 100 {
			b.store.add(1, "blue")
			time.Sleep(20 * time.Millisecond)
		}
		stop()
		require.Equal(t, 100, b.store.count(isPublished))
		require.GreaterOrEqual(t, b.store.claims, 90)
		require.InDelta(t, 2*time.Second/leasesPause, b.store.ends, 3)
	})
}

// claimed records a claim without windows that took so long.
func (c *cursor) claimed(now time.Time, sweep, more bool, rows []Claimed, took time.Duration) {
	c.done(span{sweep: sweep, began: now.Add(-took)}, now, more, len(rows), Claim{Rows: rows}.reached(ClaimParams{}))
}

// dearCursor has seen sweeps that took a second each.
func dearCursor(now time.Time) *cursor {
	c := &cursor{}
	for range sweepsJudged {
		c.claimed(now, true, false, nil, time.Second)
	}
	return c
}

// A sweep that walks over a million rows is not begun by all workers at once.
func TestOneWorkerWalksFarWhileTheOthersKeepToTheHint(t *testing.T) {
	t.Parallel()
	now, c := time.Now(), &cursor{}
	c.claimed(now, true, false, []Claimed{{Key: Key{Seq: 10}}}, time.Second)
	require.True(t, c.next(now, false).sweep, "one dear sweep proves nothing yet")
	require.False(t, c.next(now, false).sweep)
	require.True(t, c.next(now.Add(time.Second), false).sweep, "the first may have ended without a word")
}

// Nothing is to be found below the hint of a backlog but what is in flight, over which each sweep walks.
func TestASweepThatLeftRowsBehindIsNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &cursor{}
	c.claimed(now, true, false, []Claimed{{Key: Key{Seq: 10}}}, 0)
	require.True(t, c.next(now, false).sweep, "it cost nothing")
	c.claimed(now, true, true, []Claimed{{Key: Key{Seq: 20}}}, 0)
	require.Equal(t, span{after: 20, began: now}, c.next(now, false))
	c.rewind(now)
	require.True(t, c.next(now, false).sweep, "rows below the hint have become claimable")
	c.rewound = time.Time{}
	require.True(t, c.next(now.Add(sweepBacklog), false).sweep)
}

func TestFullSweepRewindsTheHint(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := dearCursor(now)
	c.claimed(now, false, false, []Claimed{{Key: Key{Seq: 900}}}, 0)
	c.claimed(now, true, true, []Claimed{{Key: Key{Seq: 10}}, {Key: Key{Seq: 20}}}, time.Second)
	require.Equal(t, span{after: 20, began: now}, c.next(now, false), "the sweep was expensive")

	c.claimed(now, true, false, []Claimed{{Key: Key{Seq: 5}}}, time.Second)
	require.Equal(t, int64(20), c.next(now, false).after, "a sweep that found everything leaves the hint alone")

	later := now.Add(11 * time.Second)
	require.Equal(t, span{sweep: true, began: later}, c.next(later, false))
}

// Rows that were given back lie below the hint of the claims that run meanwhile.
func TestClaimUnderWayDoesNotUndoARewind(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := dearCursor(now)
	c.claimed(now, true, false, []Claimed{{Key: Key{Seq: 100}}}, time.Second)
	c.rewind(now)
	for _, sweep := range []bool{false, true} {
		c.claimed(now.Add(time.Second), sweep, false, []Claimed{{Key: Key{Seq: 200}}}, 2*time.Second)
		again := c.next(now.Add(time.Second), false)
		require.True(t, again.sweep, "what was under way had not seen them")
		require.Zero(t, again.after)
	}
	c.claimed(now.Add(2*time.Second), true, false, nil, time.Second/2)
	require.False(t, c.next(now.Add(2*time.Second), false).sweep, "a sweep that began later has")
}

// Late commits lie below the hint: nothing but a sweep finds them.
func TestSlowAnswersDoNotHoldSweepsBack(t *testing.T) {
	t.Parallel()
	var c cursor
	now := time.Now()
	for range sweepsJudged - 1 {
		c.claimed(now, true, false, []Claimed{{Key: Key{Seq: 100}}}, claimTimeout)
		require.True(t, c.next(now, false).sweep, "not every sweep was slow")
	}
	c.claimed(now, true, false, []Claimed{{Key: Key{Seq: 100}}}, claimTimeout)
	require.False(t, c.next(now, false).sweep, "every sweep was")
	require.True(t, c.next(now.Add(sweepPause), false).sweep)
}

func TestSweepsRestTheLongerTheDearerTheyAre(t *testing.T) {
	t.Parallel()
	for walk, want := range map[time.Duration]time.Duration{
		-time.Millisecond: 0, sweepCheap: 0, 4 * time.Millisecond: 40 * time.Millisecond, sweepSlow: 100 * time.Millisecond,
		11 * time.Millisecond: sweepRest, 100 * time.Millisecond: time.Second, claimTimeout: sweepPause,
	} {
		require.Equal(t, want, restAfter(walk), "after %s", walk)
	}
}

func TestCheapSweepsAreRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	var c cursor
	now := time.Now()
	c.claimed(now, true, false, make([]Claimed, 100), time.Millisecond)
	require.True(t, c.next(now, false).sweep)
}

// A look that found something is followed by a claim that looks there too, also when the last sweep took long.
func TestAClaimLooksWhereTheLookFoundSomething(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &cursor{low: 100}
	c.done(c.next(now, false), now.Add(15*time.Second), false, 0, 0) // the process was stopped meanwhile
	now = now.Add(time.Minute)
	look := c.next(now, false)
	require.True(t, look.sweep)
	c.found(look)
	require.True(t, c.next(now.Add(time.Millisecond), false).sweep)
}

// A claim around a crowded topic looks at a few rows first, at twice as many each time that this left nothing behind, and never
// passes what was not there when it looked.
func TestDetoursGoInSteps(t *testing.T) {
	t.Parallel()
	const end = 5 * detourStep
	now := time.Now()
	var d detours
	all := &cursor{low: 100}
	step := func(crowded ...string) (*cursor, span) {
		c := d.of(crowded, all, now)
		s := c.next(now, false)
		s.end = end
		return c, s
	}
	c, s := step("reds")
	require.Equal(t, [2]int64{100, 100 + detourStep}, [2]int64{s.after, s.through})
	require.True(t, s.short())
	require.False(t, c.done(s, now, false, 0, 0))

	c, s = step("reds")
	require.Equal(t, [2]int64{100 + detourStep, 100 + 3*detourStep}, [2]int64{s.after, s.through})
	s.end = 0 // it is not known
	require.False(t, s.short())
	c.done(s, now, false, 0, 0)
	require.EqualValues(t, 100+detourStep, c.hint())

	c, s = step("reds")
	require.EqualValues(t, 100+5*detourStep, s.through)
	require.False(t, s.short())
	c.done(s, now, false, 0, 0)
	require.EqualValues(t, end, c.hint(), "what comes next is behind that")

	step() // it has room
	_, s = step("reds")
	require.Equal(t, [2]int64{end, end + detourStep}, [2]int64{s.after, s.through})
	require.Zero(t, all.next(now, false).through, "other claims have no steps")
}
