package dlq

import (
	"fmt"
	"time"
)

// rampStep is the size of the nth step of a watched run: a cause that is not fixed costs one event,
// not a thousand.
func rampStep(n int) int { return [...]int{1, 2, 5, 20, 50, 200, 500, ChunkSize}[min(n, 7)] }

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

// Fates counts what became of events that were sent again.
type Fates struct {
	Published int64 `json:"published"`
	// Dead died again.
	Dead int64 `json:"dead"`
	// Failing failed at least once and were not published while they were watched:
	// they are on the way to die again.
	Failing int64 `json:"failing"`
	// Waiting had not been tried when the watch over them ended.
	Waiting int64 `json:"waiting"`
}

// All is how many events that are.
func (f Fates) All() int64 { return f.Published + f.Dead + f.Failing + f.Waiting }

// Watched is what became of replayed events.
type Watched struct {
	Fates

	// Steps are the newest steps of a run that is watched, one after the other; the last may be under
	// way.
	Steps []WatchedStep `json:"steps,omitempty"`
}

// WatchedStep is what became of the events of one step.
type WatchedStep struct {
	Rows int64 `json:"rows"`
	Fates
}

// stepsKept is how many steps a plan keeps: the growing ones, and the newest of those that follow.
const stepsKept = 20

// begin adds a step whose events are sent and not yet judged.
func (w *Watched) begin(rows int64) {
	if len(w.Steps) == stepsKept {
		w.Steps = w.Steps[1:]
	}
	w.Steps = append(w.Steps, WatchedStep{rows, Fates{Waiting: rows}})
}

// settle adds what became of the step that was begun last.
func (w *Watched) settle(f Fates) {
	w.Steps[len(w.Steps)-1].Fates = f
	w.Fates = Fates{w.Published + f.Published, w.Dead + f.Dead, w.Failing + f.Failing, w.Waiting + f.Waiting}
}

// verdict returns the reason why a run must stop, or nothing.
func (w *Watch) verdict(sum Fates) string {
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
