package score

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// Session runs scenarios.
type Session struct {
	// Program is outboxctl, built with the tag failpoints.
	Program string
	// Dir takes the servers' state and the processes' logs.
	Dir string
	// FakeTime is the path of libfaketime, which makes a database's clock wrong.
	FakeTime string
	// Full runs the sizes of the targets; without it those that take long are smaller, and say so.
	Full bool
	// Scale makes everything smaller still, for trying a scenario out.
	Scale float64
	// Keep leaves the folders of the worlds behind.
	Keep  bool
	Stamp Stamp
	Log   io.Writer

	worlds int
	// smaller: the present scenario is not of the target's size.
	smaller bool
}

// result is a scenario's figure and the verdict on it.
type result struct {
	figure  string
	verdict Verdict
}

// judge writes a figure down. What is not correct is violated, whatever its speed.
func judge(correct, inTime bool, format string, args ...any) result {
	r := result{fmt.Sprintf(format, args...), Met}
	switch {
	case !correct:
		r.verdict = Violated
	case !inTime:
		r.verdict = Short
	}
	return r
}

// size is how many of something a scenario uses: by default, and for the target's own size.
func (s *Session) size(usual, full int) int {
	n := full
	if !s.Full {
		n = max(1, int(float64(usual)*s.Scale))
	}
	s.smaller = s.smaller || n < full
	return n
}

// lasts is the same for times.
func (s *Session) lasts(usual, full time.Duration) time.Duration {
	d := full
	if !s.Full {
		d = max(2*time.Second, time.Duration(float64(usual)*s.Scale))
	}
	s.smaller = s.smaller || d < full
	return d
}

func (s *Session) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Log, format+"\n", args...)
}

// Run measures the named rows, or all that have a scenario, and hands each to put as soon as it is
// there. A scenario that could not be carried through is an error, and the others are run all the
// same; a figure, however bad, is none.
func (s *Session) Run(ctx context.Context, names []string, put func(Row) error) error {
	for _, name := range names {
		if i := slices.IndexFunc(entries(), func(e entry) bool { return e.name == name }); i < 0 || entries()[i].run == nil {
			return fmt.Errorf("no scenario for %q", name)
		}
	}
	var errs []error
	for _, e := range entries() {
		if e.run == nil || len(names) > 0 && !slices.Contains(names, e.name) {
			continue
		}
		began := time.Now()
		s.say("%s: %s", e.name, e.scenario)
		s.smaller = false
		var got result
		err := rig.Carry(func() { got = e.run(s, ctx) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.say("%s: %v", e.name, err)
			errs = append(errs, fmt.Errorf("%s: %w", e.name, err))
			continue
		}
		if got.verdict == Met && s.smaller {
			got.verdict = MetSmaller
		}
		s.say("%s: %s: %s (%s)", e.name, got.verdict, got.figure, time.Since(began).Round(time.Second))
		if err := put(s.Stamp.row(e, got.figure, got.verdict)); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
