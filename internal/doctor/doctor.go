// Package doctor examines an outbox and what it depends on, and names a remedy for everything it
// finds wrong.
//
// A check never changes anything and never stops the others: one that cannot be made is a finding
// too.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/pgread"
)

// Level is how bad a finding is.
type Level string

// The levels, from good to bad.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// A Finding is one thing that was looked at.
type Finding struct {
	Area string `json:"area"`
	// Check is the check that found it; several that failed for one cause are listed.
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`

	cause string // findings of the same cause are one
}

// A Check looks at one thing and returns what it found; no findings means that the thing does not
// exist here.
type Check struct {
	Area string
	Name string
	// Remedy is the advice when the check itself fails with an error that has none.
	Remedy string
	Run    func(ctx context.Context) ([]Finding, error)
}

// checkTimeout bounds each check: a server that hangs must not keep the others from being examined.
const checkTimeout = 10 * time.Second

// Examine makes every check in turn. Checks that fail for the same cause are one finding.
func Examine(ctx context.Context, checks []Check) []Finding {
	var all []Finding
	for _, c := range checks {
		for _, f := range c.examine(ctx) {
			same := slices.IndexFunc(all, func(earlier Finding) bool { return f.cause != "" && earlier.cause == f.cause })
			if same < 0 {
				all = append(all, f)
				continue
			}
			all[same].Check += ", " + f.Check
		}
	}
	for i := range all {
		all[i].cause = ""
	}
	return all
}

func (c Check) examine(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := c.Run(ctx)
	if err != nil {
		found = append(found, c.failed(err))
	}
	for i := range found {
		found[i].Area, found[i].Check = c.Area, c.Name
	}
	return found
}

// failed is the finding of a check that could not be made. What the error advises is nearer to it
// than what the check does.
func (c Check) failed(err error) Finding {
	f := Finding{Level: Fail, Message: fmt.Sprintf("check failed: %v", err), Remedy: cmp.Or(fault.HintOf(err), c.Remedy)}
	f.cause = f.Message + "\n" + f.Remedy // servers that are away may say the same
	if late, ok := errors.AsType[*pgread.GaveUpError](err); ok && len(late.Blockers) > 0 {
		f.Message, f.cause = fmt.Sprintf("check failed: %v", late), causeOf(late.Blockers)
	}
	return f
}

// causeOf tells sessions that are in the way from others.
func causeOf(sessions []pgread.Session) string {
	pids := make([]int32, len(sessions))
	for i, s := range sessions {
		pids[i] = s.PID
	}
	return fmt.Sprint("locked by ", pids)
}

// Worst is the worst level among the findings.
func Worst(findings []Finding) Level {
	for _, level := range []Level{Fail, Warn} {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == level }) {
			return level
		}
	}
	return OK
}

func ok(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Message: fmt.Sprintf(format, args...)}}
}

func warn(remedy, format string, args ...any) []Finding {
	return []Finding{{Level: Warn, Message: fmt.Sprintf(format, args...), Remedy: remedy}}
}

func fail(remedy, format string, args ...any) []Finding {
	return []Finding{{Level: Fail, Message: fmt.Sprintf(format, args...), Remedy: remedy}}
}
