package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
)

func TestIsolateBlamesOnlyTheCulprits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		n    int
		bad  []int
		most int
	}{
		{n: 1, bad: nil, most: 1},
		{n: 1, bad: []int{0}, most: 1},
		{n: 2, bad: []int{1}, most: 3},
		{n: 100, bad: nil, most: 1},
		{n: 100, bad: []int{42}, most: 18},
		{n: 100, bad: []int{0, 99}, most: 31},
		{n: 4, bad: []int{0, 1, 2, 3}, most: 5},
	} {
		t.Run(fmt.Sprintf("%d of which %v bad", tc.n, tc.bad), func(t *testing.T) {
			t.Parallel()
			bad := map[string]bool{}
			for _, i := range tc.bad {
				bad[fmt.Sprint(i)] = true
			}
			msgs := make([]Message, tc.n)
			for i := range msgs {
				msgs[i].EventID = fmt.Sprint(i)
			}
			var mu sync.Mutex
			calls, stored := 0, map[string]int{}
			results := Isolate(t.Context(), msgs, func(_ context.Context, part []Message) []Result {
				mu.Lock()
				defer mu.Unlock()
				calls++
				out := make([]Result, len(part))
				for _, m := range part {
					if !bad[m.EventID] {
						continue
					}
					for i := range out {
						out[i] = Result{Err: NewFailure(Refused, "InvalidArgument", errors.New("bad message"))}
					}
					return out
				}
				for i, m := range part {
					stored[m.EventID]++
					out[i] = Result{MessageID: "m" + m.EventID}
				}
				return out
			})
			require.Len(t, results, tc.n)
			for i, r := range results {
				id := fmt.Sprint(i)
				if bad[id] {
					want := Rejected
					if len(tc.bad) == tc.n {
						want = Refused // the topic may be to blame
					}
					require.Equal(t, want, ClassOf(r.Err), id)
					require.Zero(t, stored[id])
				} else {
					require.NoError(t, r.Err, id)
					require.Equal(t, "m"+id, r.MessageID)
					require.Equal(t, 1, stored[id], "stored once")
				}
			}
			require.LessOrEqual(t, calls, tc.most)
		})
	}
}

// Time runs out by rounds, and the broker's patience by messages.
func TestIsolateIsDoneInFewRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const round = 100 * time.Millisecond
		msgs := make([]Message, 1000)
		for i := range msgs {
			msgs[i].EventID = fmt.Sprint(i)
		}
		var sent atomic.Int64
		began := time.Now()
		Isolate(t.Context(), msgs, func(_ context.Context, part []Message) []Result {
			time.Sleep(round)
			sent.Add(int64(len(part)))
			out := make([]Result, len(part))
			if slices.ContainsFunc(part, func(m Message) bool { return strings.HasSuffix(m.EventID, "77") }) {
				for i := range out {
					out[i] = Result{Err: NewFailure(Refused, "InvalidArgument", errors.New("bad message"))}
				}
			}
			return out
		})
		require.Equal(t, 5*round, time.Since(began))
		require.Less(t, sent.Load(), int64(3500))
	})
}

// A request of each part waits for one of the other: asked one after the other
// they would never come back.
func TestIsolateAsksAllPartsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		meet := make(chan struct{})
		refused := Result{Err: NewFailure(Refused, "InvalidArgument", errors.New("bad message"))}
		results := Isolate(t.Context(), []Message{{EventID: "a"}, {EventID: "b"}}, func(_ context.Context, part []Message) []Result {
			if len(part) == 2 {
				return []Result{refused, refused}
			}
			select {
			case meet <- struct{}{}:
			case <-meet:
			}
			return []Result{{MessageID: part[0].EventID}}
		})
		require.Equal(t, []Result{{MessageID: "a"}, {MessageID: "b"}}, results)
	})
}

func TestIsolateOutOfTimeChargesNoRow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	results := Isolate(ctx, make([]Message, 3), func(_ context.Context, part []Message) []Result {
		cancel()
		out := make([]Result, len(part))
		for i := range out {
			out[i] = Result{Err: NewFailure(Refused, "InvalidArgument", errors.New("bad request"))}
		}
		return out
	})
	for _, r := range results {
		require.Equal(t, Retryable, ClassOf(r.Err))
	}
}

func TestErrorsThatAreNoFailureAreRetryable(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("publish: %w", NewFailure(Misconfigured, "NotFound", errors.New("no")))
	require.Equal(t, Misconfigured, ClassOf(err))
	require.Equal(t, "NotFound", CodeOf(err))
	require.Equal(t, Retryable, ClassOf(errors.New("anything")))
	require.Equal(t, "unknown", CodeOf(errors.New("anything")))
	require.Equal(t, Retryable, ClassOf(Unsent(context.DeadlineExceeded)))
	require.Equal(t, "unsent", CodeOf(Unsent(context.DeadlineExceeded)))
}

func TestInOrderStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	msgs := make([]Message, 9)
	for i := range msgs {
		msgs[i].EventID = string(rune('a' + i))
	}
	for name, tc := range map[string]struct {
		bad    string
		err    error
		stored string
		class  Class
		calls  int
	}{
		"none":             {"", nil, "abcdefghi", 0, 3},
		"retryable":        {"e", errors.New("no"), "abcd", Retryable, 2},
		"the first":        {"a", Reject(errors.New("no")), "", Refused, 3},
		"in the middle":    {"f", Reject(errors.New("no")), "abcde", Rejected, 5},
		"the last message": {"i", Reject(errors.New("no")), "abcdefgh", Rejected, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, calls := "", 0
			results := InOrder(t.Context(), msgs, func(left []Message) int { return min(4, len(left)) },
				func(_ context.Context, part []Message) []Result {
					calls++
					out := make([]Result, len(part))
					if slices.ContainsFunc(part, func(m Message) bool { return m.EventID == tc.bad }) {
						for i := range out {
							out[i].Err = tc.err
						}
						return out
					}
					for _, m := range part {
						stored += m.EventID
					}
					return out
				})
			require.Equal(t, tc.stored, stored)
			require.Equal(t, tc.calls, calls)
			require.Len(t, results, len(msgs))
			if tc.err != nil {
				at := len(tc.stored)
				require.Equal(t, tc.class, ClassOf(results[at].Err))
				require.ErrorIs(t, results[len(results)-1].Err, map[bool]error{true: results[at].Err, false: ErrUnsent}[at == len(results)-1])
			}
		})
	}
}

// The dispatcher reads the failures of this package as its own.
func TestTheDispatcherReadsFailures(t *testing.T) {
	t.Parallel()
	for class, name := range map[Class]string{
		Retryable: "retryable", Refused: "refused", Rejected: "rejected", Misconfigured: "misconfigured",
	} {
		cause := errors.New("no")
		err := fmt.Errorf("publish: %w", NewFailure(class, "code", cause))
		require.Equal(t, name, class.String())
		require.Equal(t, name, dispatch.ClassOf(err).String())
		require.Equal(t, "code", dispatch.CodeOf(err))
		var own *dispatch.Failure
		require.ErrorAs(t, err, &own)
		require.ErrorIs(t, own, cause)
	}
}
