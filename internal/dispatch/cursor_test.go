package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
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

// claimed records a claim without windows that took so long.
func (c *cursor) claimed(now time.Time, sweep, more bool, rows []Claimed, took time.Duration) {
	c.done(span{sweep: sweep, began: now.Add(-took)}, now, more, len(rows), lastSeq(rows))
}

// dearCursor has seen sweeps that took a second each.
func dearCursor(now time.Time) *cursor {
	c := &cursor{}
	for range sweepsJudged {
		c.claimed(now, true, false, nil, time.Second)
	}
	return c
}

func TestFullSweepRewindsTheHint(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := dearCursor(now)
	c.claimed(now, false, false, []Claimed{{Seq: 900}}, 0)
	c.claimed(now, true, true, []Claimed{{Seq: 10}, {Seq: 20}}, time.Second)
	require.Equal(t, span{after: 20, began: now}, c.next(now, false), "the sweep was expensive")

	c.claimed(now, true, false, []Claimed{{Seq: 5}}, time.Second)
	require.Equal(t, int64(20), c.next(now, false).after, "a sweep that found everything leaves the hint alone")

	later := now.Add(11 * time.Second)
	require.Equal(t, span{sweep: true, began: later}, c.next(later, false))
}

// Rows that were given back lie below the hint of the claims that run meanwhile.
func TestClaimUnderWayDoesNotUndoARewind(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := dearCursor(now)
	c.claimed(now, true, false, []Claimed{{Seq: 100}}, time.Second)
	c.rewind(now)
	for _, sweep := range []bool{false, true} {
		c.claimed(now.Add(time.Second), sweep, false, []Claimed{{Seq: 200}}, 2*time.Second)
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
		c.claimed(now, true, false, []Claimed{{Seq: 100}}, claimTimeout)
		require.True(t, c.next(now, false).sweep, "not every sweep was slow")
	}
	c.claimed(now, true, false, []Claimed{{Seq: 100}}, claimTimeout)
	require.False(t, c.next(now, false).sweep, "every sweep was")
	require.True(t, c.next(now.Add(sweepPause), false).sweep)
}

func TestSweepsRestTheLongerTheDearerTheyAre(t *testing.T) {
	t.Parallel()
	for walk, want := range map[time.Duration]time.Duration{
		-time.Millisecond: 0, sweepCheap: 0, 4 * time.Millisecond: 40 * time.Millisecond, sweepFelt: 100 * time.Millisecond,
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

func TestSizerGrowsWhileFullAndFallsBack(t *testing.T) {
	t.Parallel()
	s := newBatchSize(50)
	for _, want := range []int{100, 200, 400, 800, 1000, 1000} {
		s.done(s.limit(), s.limit())
		require.Equal(t, want, s.limit())
	}
	s.done(1000, 700)
	require.Equal(t, 1000, s.limit())
	s.done(1000, 3)
	require.Equal(t, 50, s.limit())
	require.Equal(t, 5000, newBatchSize(5000).limit())
}

func TestFingerprintIgnoresWhatDiffers(t *testing.T) {
	t.Parallel()
	same := []string{
		`rpc error: code = Internal desc = cannot store "a b" (id 018f3a5c-7e1b-7c3d-9a4e-5f6071829304) after 250 ms at 2026-01-02T03:04:05.678Z from 10.0.0.7:8085`,
		`rpc error: code = Internal desc = cannot store "c"   (id 018f3a5c-7e1b-7c3d-9a4e-000000000000) after 9 ms at 2025-11-30 23:59:59+02:00 from 10.1.22.3:443`,
	}
	require.Equal(t, outbox.Fingerprint(outbox.ReasonMaxAttempts, same[0]), outbox.Fingerprint(outbox.ReasonMaxAttempts, same[1]))
	require.NotEqual(t, outbox.Fingerprint(outbox.ReasonMaxAttempts, same[0]), outbox.Fingerprint(outbox.ReasonInvalidPayload, same[0]))
	require.NotEqual(t, outbox.Fingerprint(outbox.ReasonMaxAttempts, "topic missing"), outbox.Fingerprint(outbox.ReasonMaxAttempts, "topic forbidden"))
	require.Equal(t, `cannot store <value> (id <id>) after <n> ms at <time> from <address>`,
		outbox.NormalizeError(same[0][len("rpc error: code = Internal desc = "):]))
}
