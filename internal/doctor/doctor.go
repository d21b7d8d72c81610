// Package doctor examines an outbox and what it depends on, and names a remedy for everything it finds wrong.
//
// A check never changes anything and never stops the others: one that cannot be made is a finding too.
package doctor

import (
	"context"
	"fmt"
	"time"
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
	Area    string `json:"area"`
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// A Check looks at one thing and returns what it found; no findings means that the thing does not exist here.
type Check struct {
	Area string
	Name string
	// Remedy is the advice when the check itself fails.
	Remedy string
	Run    func(ctx context.Context) ([]Finding, error)
}

// checkTimeout bounds each check: a server that hangs must not keep the others from being examined.
const checkTimeout = 10 * time.Second

// Examine makes every check in turn.
func Examine(ctx context.Context, checks []Check) []Finding {
	var all []Finding
	for _, c := range checks {
		all = append(all, c.examine(ctx)...)
	}
	return all
}

func (c Check) examine(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := c.Run(ctx)
	if err != nil {
		found = append(found, Finding{Level: Fail, Message: fmt.Sprintf("could not look: %v", err), Remedy: c.Remedy})
	}
	for i := range found {
		found[i].Area, found[i].Check = c.Area, c.Name
	}
	return found
}

// Worst is the worst level among the findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		if f.Level == Fail {
			return Fail
		}
		if f.Level == Warn {
			worst = Warn
		}
	}
	return worst
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
