package dlq

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// rampSteps are the sizes of the first steps of a watched run: a cause that is
// not fixed costs one event, not a thousand.
func rampSteps() []int { return []int{1, 2, 5, 20, 50, 200, 500} }

// Watch stops a run when the events it replays die again.
type Watch struct {
	// MaxDead is the share of replayed events that may die again, 0 to 1.
	MaxDead float64
	// For is how long one step is waited for.
	For time.Duration
	// Every is how often the database is asked, and at least once in For.
	Every time.Duration
}

// DefaultWatch is a watch that stops when more than 5 % die again, judged 30 seconds after each
// step at the latest.
func DefaultWatch() Watch {
	return Watch{MaxDead: 0.05, For: 30 * time.Second, Every: 250 * time.Millisecond}
}

// Watched counts what became of replayed events.
type Watched struct {
	Published int64 `json:"published"`
	// Dead died again.
	Dead int64 `json:"dead"`
	// Failing failed at least once and were not published while they were watched:
	// they are on the way to die again.
	Failing int64 `json:"failing"`
	// Waiting had not been tried when the watch over them ended.
	Waiting int64 `json:"waiting"`
	// Steps are the newest steps of a run that is watched, one after the other; the last may be under
	// way.
	Steps []WatchedStep `json:"steps,omitempty"`
}

// WatchedStep is what became of the events of one step.
type WatchedStep struct {
	Rows      int64 `json:"rows"`
	Published int64 `json:"published"`
	Dead      int64 `json:"dead"`
	Failing   int64 `json:"failing"`
	Waiting   int64 `json:"waiting"`
}

// stepsKept is how many steps a plan keeps: the growing ones, and the newest of those that follow.
const stepsKept = 20

// Any reports whether something was watched.
func (w Watched) Any() bool { return w.Published+w.Dead+w.Failing+w.Waiting > 0 }

// begin adds a step whose events are sent and not yet judged.
func (w *Watched) begin(rows int) {
	if len(w.Steps) == stepsKept {
		w.Steps = w.Steps[1:]
	}
	w.Steps = append(w.Steps, WatchedStep{Rows: int64(rows), Waiting: int64(rows)})
}

func (w *Watched) add(more Watched) {
	w.Published += more.Published
	w.Dead += more.Dead
	w.Failing += more.Failing
	w.Waiting += more.Waiting
	if last := len(w.Steps) - 1; last >= 0 {
		w.Steps[last] = WatchedStep{w.Steps[last].Rows, more.Published, more.Dead, more.Failing, more.Waiting}
	}
}

func (w *Watch) step(n int) int {
	if steps := rampSteps(); n < len(steps) {
		return steps[n]
	}
	return ChunkSize
}

// follow waits until every event is published or dead, but no longer than the
// watch says, and adds up what it saw.
func (w *Watch) follow(ctx context.Context, o *Outbox, sent []Outcome, sum *Watched) error {
	seen, err := o.await(ctx, AwaitParams{
		Sent: sent, Timeout: w.For, Every: min(w.Every, w.For), OnSettled: func(Outcome) error { return nil },
	})
	sum.add(seen)
	return cmp.Or(err, ctx.Err())
}

// verdict returns the reason why a run must stop, or nothing.
func (w *Watch) verdict(sum Watched) string {
	bad := sum.Dead + sum.Failing
	judged := bad + sum.Published
	if judged == 0 {
		return fmt.Sprintf("none of the %d replayed events was tried within %s: is a publisher running?", sum.Waiting, w.For)
	}
	if share := float64(bad) / float64(judged); share > w.MaxDead {
		return fmt.Sprintf("%d of %d replayed events died again or keep failing (%.0f%%, allowed are %.4g%%)",
			bad, judged, share*100, w.MaxDead*100)
	}
	return ""
}
